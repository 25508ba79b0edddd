"""Several processes train one network: to the bit the same in each, and up to the order of sums that of one process."""

import os
import subprocess
import sys
from multiprocessing import current_process

import numpy as np
import pytest
import torch

import process_cases
from sparsenam.training.processes import ALONE, Processes, joined_processes

REFUSED = {
    "other rows": "another y",
    "other seeds": "another random_state",
    "line search": "'fista'",
    "time budget": "max_seconds",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What one process finds, and what each of two finds that torchrun started."""
    found = []
    for launcher in ([], ["-m", "torch.distributed.run", "--nproc-per-node=2", "--rdzv-backend=c10d"]):
        folder = tmp_path_factory.mktemp("processes")
        process_cases.table().to_parquet(folder / "table.parquet")
        if not launcher:
            found.append(process_cases.results(folder))
            continue
        on_loopback = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
        address = ["--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
        command = [sys.executable, *launcher, *address, process_cases.__file__, str(folder)]
        ended = subprocess.run(command, env={**os.environ, **on_loopback}, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        found += [dict(np.load(folder / f"{place}.npz")) for place in range(2)]
    return found


def test_all_processes_end_with_the_same_bits(trained):
    _, first, second = trained
    assert first.keys() == second.keys()
    for name in first:
        assert np.array_equal(first[name], second[name]), name


@pytest.mark.parametrize("case", ["double", "double with penalty", "all rows a step", "resumed"])
def test_in_double_precision_two_processes_find_what_one_finds(trained, case):
    one, first, _ = trained
    np.testing.assert_allclose(first[case], one[case], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", ["mini-batches", "functions", "files"])
def test_in_single_precision_they_agree_up_to_its_rounding(trained, case):
    one, first, _ = trained
    np.testing.assert_allclose(first[case], one[case], rtol=1e-4, atol=1e-4)


def test_a_penalty_drops_a_term_for_all_of_them(trained):
    assert trained[0]["double with penalty"].size == 36 + 1 + 2  # parameters, the intercept and the active terms


def test_their_rows_do_not_lose_the_same_units_to_dropout(trained):
    one, first, _ = trained
    assert not np.allclose(first["dropout"], one["dropout"], rtol=1e-3)


@pytest.mark.parametrize("case", REFUSED)
def test_processes_that_cannot_train_together_say_why(trained, case):
    one, first, _ = trained
    assert not one[case].size
    assert REFUSED[case] in bytes(first[case]).decode()


@pytest.mark.parametrize("number", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [slice(0, 0), slice(5, 6), slice(3, 20)])
def test_every_row_is_in_one_share(number, rows):
    for divides in (True, False):
        shares = [Processes(place, number).share(rows, divides=divides) for place in range(number)]
        taken = [row for share in shares for row in range(share.start, share.stop)]
        assert taken == list(range(rows.start, rows.stop))


def test_one_process_asks_no_other(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with joined_processes() as processes:
        assert processes == ALONE
    tensor = torch.ones(3)
    assert ALONE.total(tensor)[0] is tensor
    assert ALONE.agreed(tensor)[0] is tensor


def test_a_worker_of_another_library_is_not_one_of_torchruns_processes(monkeypatch):
    for name, value in {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(current_process(), "_name", "LokyProcess-1")
    with joined_processes() as processes:  # would wait for the other process
        assert processes == ALONE
