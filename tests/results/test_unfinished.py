"""A killed save leaves a file behind, and the next save to the same path removes it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from privatelr import locks
from privatelr.results.release_files import (
    create_file,
    replace_file,
    reservation_of,
)

fcntl = pytest.importorskip("fcntl", reason="this system has no locks that end with a process")

SAVER = """
import os, sys
from pathlib import Path
from privatelr.results.release_files import replace_file
honest = os.fsync
def fsync(descriptor):
    print("written", flush=True)
    sys.stdin.readline()
    honest(descriptor)
os.fsync = fsync
replace_file(Path(sys.argv[1]), b"by another process")
"""


@pytest.fixture
def saver():
    """Starts processes that have written their file and wait before they rename it."""
    started = []

    def start(target):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        started.append(process)
        assert process.stdout.readline() == "written\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=60)


def kill(process):
    process.kill()
    process.wait(timeout=60)


def others(folder, *names):
    return sorted({path.name for path in folder.iterdir()} - set(names))


@pytest.mark.parametrize("write", [create_file, replace_file])
def test_what_a_killed_save_left_is_removed_by_the_next(write, saver, tmp_path):
    target = tmp_path / "model.json"
    kill(saver(target))
    assert len(others(tmp_path)) == 1
    write(target, b"here")
    assert target.read_bytes() == b"here"
    assert others(tmp_path, "model.json") == []


def test_what_is_being_written_is_left_alone(saver, tmp_path):
    """By a living process to the same target, and by a killed one to another target."""
    target = tmp_path / "model.json"
    living, killed = saver(target), saver(tmp_path / "other.json")
    kill(killed)
    before = others(tmp_path)
    assert len(before) == 2
    replace_file(target, b"here")
    assert others(tmp_path, "model.json") == before
    living.communicate("go on\n", timeout=60)
    assert living.returncode == 0
    assert target.read_bytes() == b"by another process"
    replace_file(tmp_path / "other.json", b"here")
    assert others(tmp_path) == ["model.json", "other.json"]


def grow_old(path, seconds=7200):
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))


def test_what_was_left_for_another_target_is_removed_when_it_is_old(saver, tmp_path):
    """A file that has its lock stays at any age, and one without stays for an hour."""
    killed, living = saver(tmp_path / "killed.json"), saver(tmp_path / "living.json")
    kill(killed)
    reservation = reservation_of(tmp_path / "fit.json")
    reservation.touch()
    before = others(tmp_path)
    assert len(before) == 3
    replace_file(tmp_path / "model.json", b"here")
    assert others(tmp_path, "model.json") == before
    for path in tmp_path.glob(".privatelr-*"):
        grow_old(path)
    replace_file(tmp_path / "model.json", b"here")
    (kept,) = others(tmp_path, "model.json")
    assert kept in before
    living.communicate("go on\n", timeout=60)
    assert others(tmp_path) == ["living.json", "model.json"]


@pytest.mark.parametrize("none", [True, False])
def test_without_locks_files_are_written_all_the_same(none, tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unknown)
    if none:
        monkeypatch.setattr(locks, "fcntl", None)
    replace_file(tmp_path / "model.json", b"here")
    assert (tmp_path / "model.json").read_bytes() == b"here"
    assert others(tmp_path) == ["model.json"]
