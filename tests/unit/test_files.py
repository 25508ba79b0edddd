"""Files that appear whole or not at all: their permissions, links, failures, and what killed processes left."""

import errno
import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from sparsenam import files
from sparsenam.files import folder_beside, remove, remove_leftovers, write_atomically, write_together, written_beside


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_file_that_is_overwritten_keeps_its_permissions(mode, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new")
    write_together({path: b"newer"})
    assert path.read_bytes() == b"newer"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_permissions_that_the_process_gives_to_new_files(tmp_path):
    write_atomically(tmp_path / "new", b"")
    (tmp_path / "usual").write_bytes(b"")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_replaces_a_private_file_is_private_while_it_is_written(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with written_beside(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        temporary.write_bytes(b"new")


def test_a_symbolic_link_stays_and_the_file_that_it_leads_to_is_written(tmp_path):
    (tmp_path / "disk").mkdir()
    for name in ("there", "not-yet"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    (tmp_path / "disk" / "there").write_bytes(b"old")
    write_atomically(tmp_path / "there", b"new")
    write_together({tmp_path / "not-yet": b"new"})
    for name in ("there", "not-yet"):
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "disk" / name).read_bytes() == b"new"
    remove(tmp_path / "there")
    assert names(tmp_path / "disk") == ["not-yet"] and (tmp_path / "there").is_symlink()


@pytest.mark.parametrize("write", [lambda path: write_atomically(path, b""), lambda path: write_together({path: b""})])
def test_a_folder_or_a_device_is_refused_by_its_name(write, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        write(tmp_path)
    with pytest.raises(OSError, match=r"not a regular file.*pipe"):
        write(pipe)
    assert names(tmp_path) == ["pipe"]


def test_a_failure_leaves_what_was_there_and_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for write in (lambda: write_atomically(new, b"1"), lambda: write_together({new: b"1"}, replaced=[old])):
        with pytest.raises(OSError, match="No space left") as caught:
            write()
        assert caught.value.filename == str(new)
    assert names(tmp_path) == ["old"]


def test_nothing_that_is_replaced_stands_beside_a_new_file_at_any_moment(tmp_path, monkeypatch):
    for name in ("model", "report"):
        (tmp_path / name).write_bytes(b"old")
    usual, seen = os.replace, []

    def watched(source, target):
        seen.append([path.read_bytes() for path in (tmp_path / "model", tmp_path / "report") if path.exists()])
        usual(source, target)

    monkeypatch.setattr(os, "replace", watched)
    contents = {tmp_path / "model": lambda path: path.write_bytes(b"new"), tmp_path / "report": b"new"}
    write_together(contents, replaced=[tmp_path / "report"])
    assert seen == [[b"old"], [b"new"]]
    assert names(tmp_path) == ["model", "report"]


def test_the_next_write_removes_what_a_killed_process_left_and_nothing_else(tmp_path):
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom sparsenam.files import folder_beside, written_beside\n"
        "path = Path(sys.argv[1], 'model')\n"
        "with folder_beside(path) as folder, written_beside(path) as part:\n"
        "    (folder / 'half').write_bytes(b'1')\n    part.write_bytes(b'1')\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path], check=False)
    left = names(tmp_path)
    assert len(left) == 2 and all(name.endswith(".part") for name in left)
    machine, _, _ = left[0].removeprefix(".model.").split("-")
    alive = tmp_path / f".model.{machine}-{os.getppid()}-00000000.part"
    other = {
        "recent": tmp_path / ".model.00000000-1-00000000.part",
        "stale": tmp_path / ".model.00000000-1-00000001.part",
    }
    for path in (alive, *other.values()):
        path.write_bytes(b"")
    a_week_ago = time.time() - 7 * 24 * 3600
    os.utime(other["stale"], (a_week_ago, a_week_ago))
    (tmp_path / ".model.part").write_bytes(b"of somebody else")
    write_atomically(tmp_path / "other", b"")
    assert names(tmp_path) == sorted([".model.part", alive.name, other["recent"].name, "other"])


def test_a_folder_beside_a_file_is_gone_at_the_end(tmp_path):
    with pytest.raises(KeyError), folder_beside(tmp_path / "out") as folder:
        (folder / "half").write_bytes(b"1")
        raise KeyError
    assert names(tmp_path) == []


def test_a_name_as_long_as_the_disk_allows_can_be_written(tmp_path):
    path = tmp_path / ("é" * 127)
    write_atomically(path, b"1")
    assert names(tmp_path) == [path.name]


def test_a_folder_that_cannot_be_listed_is_no_reason_to_fail(tmp_path):
    remove_leftovers(tmp_path / "absent")
    assert files.PART.fullmatch(files._name_beside(tmp_path / "a\nb").name)


def test_a_write_that_fails_leaves_the_old_file_and_no_part(monkeypatch, tmp_path):
    path = tmp_path / "numbers.csv"
    write_atomically(path, b"old")

    def fail(*names):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["numbers.csv"]


def test_a_reader_beside_many_writers_never_sees_a_part(tmp_path):
    path = tmp_path / "numbers.csv"
    contents = [bytes([letter]) * 200_000 for letter in b"abcd"]
    write_atomically(path, contents[0])
    writers = [threading.Thread(target=lambda c=c: [write_atomically(path, c) for _ in range(20)]) for c in contents]
    for writer in writers:
        writer.start()
    seen = {path.read_bytes() for _ in range(50)}
    for writer in writers:
        writer.join()
    assert seen <= set(contents)
    assert names(tmp_path) == ["numbers.csv"]
