"""Data files are found in a fixed order, fetched whole or not at all, and used only with the right sum."""

import gzip
import hashlib
import io
import os
import socket
import sys
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import narwhals.stable.v2 as nw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paper.data import (
    Dataset,
    load_california,
    load_compas,
    load_compas_recidivism,
    load_superconductivity,
    published,
    store,
)
from paper.data.download import unpack
from paper.data.store import Copy, DataFile, Source, read_files
from sparsenam import SNAMRegressor
from sparsenam.errors import InputError

GOOD = b"1,2,3\n4,5,6\n" * 1000


def sum_of(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """No test sees the user's folders."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(store, "cache_folder", lambda: folder)
    monkeypatch.delenv(store.VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder


@pytest.fixture
def serve():
    """Serve {path: body}; a body is bytes, or (bytes, announced length) for a download that breaks off."""
    with _served() as pages:
        yield pages


@contextmanager
def _served():
    bodies, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = bodies.get(self.path)
            if body is None:
                self.send_error(404)
                return
            body, length = body if isinstance(body, tuple) else (body, len(body))
            self.send_response(200)
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()

    def page(path, body):
        bodies[path] = body
        return f"http://127.0.0.1:{server.server_port}{path}"

    page.asked = asked
    try:
        yield page
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def plain_source(*urls, content=GOOD, limit=1_000_000, **more):
    return Source("Numbers", urls, (DataFile((Copy("numbers.csv", sum_of(content)),), **more),), limit=limit)


def tar_of(entries):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def zip_of(entries):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


PACKERS = {"tar.gz": tar_of, "zip": zip_of}


def archived_source(kind, url, member="data/numbers.csv", **more):
    return replace(plain_source(url, member=member, **more), archive=kind)


def refused_url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/numbers.csv"


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


# --- finding ---


def test_folder_comes_before_the_variable_before_the_cache_before_the_download(monkeypatch, serve, tmp_path, cache):
    url = serve("/numbers.csv", GOOD)
    source = plain_source(url)
    given_folder, named_folder = tmp_path / "given", tmp_path / "named"
    for folder in (given_folder, named_folder, cache):
        folder.mkdir()
        (folder / "numbers.csv").write_bytes(f"wrong in {folder.name}".encode())
    monkeypatch.setenv(store.VARIABLE, str(named_folder))
    # a wrong file is an error that names it, so the errors tell the order of looking
    for folder in (given_folder, named_folder, cache):
        with pytest.raises(InputError, match=str(folder)):
            read_files(source, given_folder)
        (folder / "numbers.csv").unlink()
    assert serve.asked == []
    assert read_files(source, given_folder) == (GOOD,)
    assert serve.asked == ["/numbers.csv"]


def test_a_download_happens_once(serve, cache):
    source = plain_source(serve("/numbers.csv", GOOD))
    assert read_files(source) == read_files(source) == (GOOD,)
    assert serve.asked == ["/numbers.csv"]
    assert files_in(cache) == ["numbers.csv"]
    assert (cache / "numbers.csv").read_bytes() == GOOD


def test_a_found_file_with_a_wrong_sum_is_named_and_left_alone(serve, cache):
    cache.mkdir()
    (cache / "numbers.csv").write_bytes(b"altered")
    with pytest.raises(InputError) as caught:
        read_files(plain_source(serve("/numbers.csv", GOOD)))
    for part in (str(cache / "numbers.csv"), sum_of(GOOD), sum_of(b"altered")):
        assert part in str(caught.value)
    assert (cache / "numbers.csv").read_bytes() == b"altered"
    assert serve.asked == []


def test_a_compressed_copy_is_checked_and_unpacked(tmp_path):
    packed = gzip.compress(GOOD)
    file = DataFile((Copy("numbers.csv.gz", sum_of(packed), compressed=True), Copy("numbers.csv", sum_of(GOOD))))
    source = Source("Numbers", (), (file,))
    (tmp_path / "numbers.csv.gz").write_bytes(packed)
    assert read_files(source, tmp_path) == (GOOD,)
    (tmp_path / "numbers.csv.gz").write_bytes(gzip.compress(GOOD + b"7,8,9\n"))
    with pytest.raises(InputError, match=sum_of(packed)):
        read_files(source, tmp_path)
    (tmp_path / "numbers.csv.gz").unlink()
    (tmp_path / "numbers.csv").write_bytes(GOOD)
    assert read_files(source, tmp_path) == (GOOD,)


@pytest.mark.parametrize("unix_lines", [True, False])
def test_line_ends_matter_only_where_the_sum_is_of_unix_lines(tmp_path, unix_lines):
    (tmp_path / "numbers.csv").write_bytes(GOOD.replace(b"\n", b"\r\n"))
    source = plain_source(unix_lines=unix_lines)
    if unix_lines:
        assert read_files(source, tmp_path) == (GOOD,)
    else:
        with pytest.raises(InputError, match="sha256"):
            read_files(source, tmp_path)


def test_a_folder_that_is_not_there_is_an_error(monkeypatch, tmp_path):
    with pytest.raises(InputError, match=r"folder: expected an existing folder, got .*absent"):
        read_files(plain_source(), tmp_path / "absent")
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(InputError, match=rf"{store.VARIABLE}: expected an existing folder"):
        read_files(plain_source())


# --- fetching ---


def test_a_download_with_a_wrong_sum_is_not_kept(serve, cache):
    with pytest.raises(InputError, match=f"expected a file with sha256 {sum_of(GOOD)}, got sha256 {sum_of(b'bad')}"):
        read_files(plain_source(serve("/numbers.csv", b"bad")))
    assert files_in(cache) == []


def _broken_off(serve):
    return serve("/short.csv", (GOOD[:500], len(GOOD))), "broke off after 500 of"


def _absent(serve):
    return serve("/other.csv", GOOD).replace("other", "absent"), "404"


def _refused(serve):
    return refused_url(), "refused"


@pytest.mark.parametrize("case", [_broken_off, _absent, _refused])
def test_without_a_download_the_error_says_what_to_get_from_where_and_where_to_put_it(serve, cache, case):
    url, reason = case(serve)
    with pytest.raises(InputError) as caught:
        read_files(plain_source(url))
    sentence = str(caught.value)
    for part in (reason, "numbers.csv", url, str(cache), store.VARIABLE, sum_of(GOOD)):
        assert part in sentence
    assert "\n" not in sentence
    assert files_in(cache) == []


def test_a_download_cut_without_an_announced_length_is_caught_by_its_sum(serve, cache):
    with pytest.raises(InputError, match=sum_of(GOOD[:500])):
        read_files(plain_source(serve("/numbers.csv", (GOOD[:500], None))))
    assert files_in(cache) == []


def test_the_next_address_is_tried_when_one_fails(serve):
    assert read_files(plain_source(refused_url(), serve("/numbers.csv", GOOD))) == (GOOD,)


def test_a_download_beyond_the_limit_is_refused(serve, cache):
    with pytest.raises(InputError, match="at most 1000 bytes"):
        read_files(plain_source(serve("/numbers.csv", GOOD), limit=1000))
    assert files_in(cache) == []


def test_two_files_of_one_archive_are_one_download_and_a_found_one_is_kept(serve, cache, tmp_path):
    url = serve("/both.zip", zip_of({"a.csv": b"a", "b.csv": b"b"}))
    files = tuple(DataFile((Copy(f"{name}.csv", sum_of(name.encode())),), member=f"{name}.csv") for name in "ab")
    source = Source("Both", (url,), files, archive="zip")
    (tmp_path / "a.csv").write_bytes(b"a")
    assert read_files(source, tmp_path) == (b"a", b"b")
    assert files_in(cache) == ["b.csv"]  # a.csv was there already
    assert serve.asked == ["/both.zip"]


def test_a_cache_that_cannot_be_written_is_an_error_in_one_sentence(serve, cache):
    cache.write_bytes(b"a file where the folder should be")
    with pytest.raises(InputError, match=r"the cache .*numbers\.csv"):
        read_files(plain_source(serve("/numbers.csv", GOOD)))


# --- archives ---


@pytest.mark.parametrize("kind", PACKERS)
def test_a_member_is_taken_by_its_exact_name_and_nothing_else_is_written(serve, cache, tmp_path, kind):
    packed = PACKERS[kind]({"../../escape.csv": b"evil", "data/numbers.csv": GOOD, "/numbers.csv": b"evil"})
    assert read_files(archived_source(kind, serve("/a", packed))) == (GOOD,)
    assert files_in(tmp_path) == ["cache", "cache/numbers.csv"]


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("name", ["../data/numbers.csv", "numbers.csv", "/data/numbers.csv", "data/numbers.csv.bak"])
def test_a_member_of_another_name_does_not_count(serve, cache, kind, name):
    packed = PACKERS[kind]({name: GOOD})
    with pytest.raises(InputError, match=r"an archive with the file data/numbers\.csv"):
        read_files(archived_source(kind, serve("/a", packed)))
    assert files_in(cache) == []


def test_a_link_in_the_place_of_the_member_does_not_count(serve):
    packed = tar_of({"data/numbers.csv": "/etc/hostname"})
    with pytest.raises(InputError, match=r"an archive with the file data/numbers\.csv"):
        read_files(archived_source("tar.gz", serve("/a", packed)))


@pytest.mark.parametrize("kind", PACKERS)
def test_an_archive_that_swells_beyond_the_limit_is_refused(serve, kind):
    bomb = PACKERS[kind]({"data/numbers.csv": bytes(3_000_000)})
    assert len(bomb) < 1_000_000
    with pytest.raises(InputError, match="at most 1000000 bytes"):
        read_files(archived_source(kind, serve("/a", bomb)))


@pytest.mark.parametrize("kind", PACKERS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_gives_the_member_or_an_input_error(kind, data):
    packed = bytearray(PACKERS[kind]({"data/numbers.csv": b"1,2,3\n"}))
    for index in data.draw(st.lists(st.integers(0, len(packed) - 1), min_size=1, max_size=4)):
        packed[index] = data.draw(st.integers(0, 255))
    packed = bytes(packed[: data.draw(st.integers(0, len(packed)))])
    try:
        (content,) = unpack("the archive", packed, kind, ["data/numbers.csv"], 10_000)
    except InputError as error:
        assert str(error).startswith("the archive: expected")
    else:
        assert len(content) <= 10_000


# --- the published files ---


def _folder_of_published_files():
    named = os.environ.get("SPARSENAM_DATA")
    beside = Path(__file__).parents[3] / "shared" / "data"
    return Path(named) if named else beside if beside.is_dir() else None


PUBLISHED = _folder_of_published_files()


def needs(source):
    """Skip unless every file of this source is there; a file with a wrong sum fails, it does not skip."""
    there = PUBLISHED is not None and all(
        any((PUBLISHED / copy.name).is_file() for copy in file.copies) for file in source.files
    )
    return pytest.mark.skipif(not there, reason="the published files are not here; name their folder in SPARSENAM_DATA")


@needs(published.CALIFORNIA)
def test_california_is_the_table_of_scikit_learn():
    data = load_california(PUBLISHED)
    means = dict(zip(data.feature_names, data.X.mean(axis=0), strict=True))
    assert data.X.shape == (20640, 8) and data.y.shape == (20640,) and data.X.dtype == data.y.dtype == np.float64
    assert (data.target_name, data.task) == ("MedHouseVal", "regression")
    assert data.y.mean() == pytest.approx(2.068558, abs=1e-6)
    assert (data.y.min(), data.y.max()) == (0.14999, 5.00001)
    expected = {"MedInc": 3.870671, "AveRooms": 5.429, "AveBedrms": 1.096675, "AveOccup": 3.070655}
    assert {name: means[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert means["Population"] == pytest.approx(1425.4767, abs=1e-4)
    first = [8.3252, 41, 6.98412698, 1.02380952, 322, 2.55555556, 37.88, -122.23]
    np.testing.assert_allclose(data.X[0], first, atol=1e-8)
    assert data.y[0] == 4.526


@pytest.mark.parametrize("absent", [(), ("pandas",), ("pandas", "polars")], ids=["pandas", "polars", "pyarrow"])
def test_a_data_set_is_a_table_with_its_names_whichever_library_is_there(absent, monkeypatch):
    random = np.random.default_rng(0)
    data = Dataset(random.normal(size=(80, 2)), random.normal(size=80), ("rooms", "age"), "value", "regression")
    with monkeypatch.context() as limited:
        for library in absent:
            limited.setitem(sys.modules, library, None)
        frame = data.frame
    assert list(nw.from_native(frame).columns) == ["rooms", "age", "value"]
    np.testing.assert_array_equal(nw.from_native(frame)["age"].to_numpy(), data.X[:, 1])
    explanation = SNAMRegressor(alpha=0.01, random_state=0).fit(frame, data.target_name).explain()
    assert explanation.target == "value" and {column.name for column in explanation.features} <= {"rooms", "age"}


def test_without_a_library_of_tables_a_data_set_says_what_to_install(monkeypatch):
    for library in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, library, None)
    data = Dataset(np.ones((2, 1)), np.ones(2), ("a",), "y", "regression")
    with pytest.raises(ImportError, match="frame: expected pandas, polars or pyarrow, got none of them; install one"):
        _ = data.frame


@needs(published.CALIFORNIA)
def test_california_comes_out_of_an_archive_with_windows_line_ends(monkeypatch, serve):
    lines = (PUBLISHED / "cal_housing.data").read_bytes().replace(b"\n", b"\r\n")
    url = serve("/cal_housing.tgz", tar_of({"CaliforniaHousing/cal_housing.data": lines}))
    monkeypatch.setattr(published, "CALIFORNIA", replace(published.CALIFORNIA, urls=(url,)))
    np.testing.assert_array_equal(load_california().X, load_california(PUBLISHED).X)
    assert serve.asked == ["/cal_housing.tgz"]


@needs(published.COMPAS)
def test_compas_has_2751_of_6172_scores_above_low():
    data = load_compas(PUBLISHED)
    assert data.X.shape == (6172, 13) and len(data.feature_names) == 13 and data.task == "classification"
    assert data.y.sum() == 2751 and set(np.unique(data.y)) == {0.0, 1.0}
    by_name = dict(zip(data.feature_names, data.X.T, strict=True))
    assert all(set(np.unique(column)) == {0.0, 1.0} for name, column in by_name.items() if name != "priors_count")
    for group in ("age_", "race_"):  # one level a person
        levels = [column for name, column in by_name.items() if name.startswith(group)]
        np.testing.assert_array_equal(np.sum(levels, axis=0), 1.0)


@needs(published.COMPAS)
def test_recidivism_is_the_same_table_with_one_column_as_the_target():
    score, repeat = load_compas(PUBLISHED), load_compas_recidivism(PUBLISHED)
    index = score.feature_names.index("two_year_recid")
    assert repeat.X.shape == (6172, 12) and repeat.target_name == "two_year_recid"
    np.testing.assert_array_equal(repeat.y, score.X[:, index])
    np.testing.assert_array_equal(repeat.X, np.delete(score.X, index, axis=1))
    assert repeat.feature_names == score.feature_names[:index] + score.feature_names[index + 1 :]


@needs(published.SUPERCONDUCTIVITY)
def test_superconductivity_has_81_summaries_and_50_elements():
    data = load_superconductivity(PUBLISHED)
    assert data.X.shape == (21263, 131) and len(set(data.feature_names)) == 131
    assert data.feature_names[0] == "number_of_elements" and data.feature_names[81] == "H"
    assert "Nd" in data.feature_names and "Yb" not in data.feature_names
    assert data.X.var(axis=0).min() >= 0.05
    assert (data.y.mean(), data.y.std()) == pytest.approx((34.4212, 34.254), abs=1e-3)
    assert (data.y.min(), data.y.max()) == (0.00021, 185)
