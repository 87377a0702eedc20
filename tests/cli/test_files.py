"""Files are written whole or not at all, and none is lost by mistake."""

import errno
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from frames_for_laws import FORMULA, clinic
from hypothesis import given
from hypothesis import strategies as st

from privatelr import cli, dplr, load
from privatelr.cli import model_commands
from privatelr.results.release_files import create_file, replace_file

DECLARED = ["--bounds", "age=18:90", "--bounds", "dose=0:5", "--bounds", "y=0:1"]
DECLARED += ["--levels", "smoker=no,yes"]
OTHER = "what was there before"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clinic().to_csv("clinic.csv", index=False)
    return tmp_path


def fit(capsys, *options):
    """Exit status, standard output and the last line on standard error of a fit."""
    status = cli.main(["fit", "clinic.csv", FORMULA, *DECLARED, *options])
    shown = capsys.readouterr()
    return status, shown.out, shown.err.splitlines()[-1]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("write", [create_file, replace_file])
@given(data=st.binary())
def test_a_file_holds_what_was_written(write, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write(folder / "file", data)
    assert (folder / "file").read_bytes() == data
    assert names(folder) == ["file"]


def test_a_model_on_disk_is_the_model_that_is_printed(home, capsys):
    status, out, _ = fit(capsys, "--out", "model.json", "--json")
    assert status == 0
    assert (home / "model.json").read_text(encoding="utf-8") == out
    assert load("model.json").nobs == 40
    assert names(home) == ["clinic.csv", "model.json"]


def test_an_existing_file_is_refused_before_anything_is_spent(home, capsys, monkeypatch):
    monkeypatch.setattr(model_commands, "open_table", None)
    spent = create_autospec(dplr, side_effect=AssertionError("a budget is spent"))
    monkeypatch.setattr(model_commands, "dplr", spent)
    (home / "model.json").write_text(OTHER, encoding="utf-8")
    (home / "link.json").symlink_to("nowhere.json")
    for name in ("model.json", "link.json"):
        status, out, said = fit(capsys, "--out", name)
        assert (status, out) == (1, "")
        assert said == f"privatelr: --out {name!r}: the file exists; --force replaces it."
    assert (home / "model.json").read_text(encoding="utf-8") == OTHER


def test_force_replaces_it_and_follows_links(home, capsys):
    (home / "model.json").write_text(OTHER, encoding="utf-8")
    (home / "link.json").symlink_to("model.json")
    assert fit(capsys, "--out", "link.json", "--force")[0] == 0
    assert (home / "link.json").is_symlink()
    assert load("model.json").nobs == 40


def without_links(*_):
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_left_as_it_is(links, home, capsys, monkeypatch):
    @functools.wraps(dplr)
    def slow(formula, frame, **options):
        (home / "model.json").write_text(OTHER, encoding="utf-8")
        return dplr(formula, frame, **options)

    monkeypatch.setattr(model_commands, "dplr", slow)
    if not links:
        monkeypatch.setattr(os, "link", without_links)
    status, out, said = fit(capsys, "--out", "model.json")
    assert status == 3
    assert "epsilon = 1 (pure)" in out  # it was paid for
    assert "appeared meanwhile" in said
    assert (home / "model.json").read_text(encoding="utf-8") == OTHER
    assert names(home) == ["clinic.csv", "model.json"]


# -- a name is taken before anything is spent ------------------------------------------------

PRIVATELR = Path(sys.executable).with_name("privatelr")


def begun(home, *arguments):
    """A command in a process of its own."""
    return subprocess.Popen(
        [PRIVATELR, *arguments],
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def test_of_four_fits_at_once_one_pays(home):
    command = ["fit", "clinic.csv", FORMULA, *DECLARED, "--out", "model.json", "--json"]
    fits = [begun(home, *command) for _ in range(4)]
    ends = [(*process.communicate(timeout=120), process.returncode) for process in fits]
    paid = [end for end in ends if end[2] == 0]
    assert [out for out, _, _ in paid] == [(home / "model.json").read_text(encoding="utf-8")]
    for out, said, status in ends:
        if status:
            assert (out, status, said.count("\n")) == ("", 1, 1)
            assert "at work" in said or "the file exists" in said
    assert len(paid) == 1
    assert names(home) == ["clinic.csv", "model.json"]


def reserved(home):
    """A fit that waits for its table, its name taken."""
    waiting = begun(home, "fit", "-", FORMULA, *DECLARED, "--out", "model.json")
    deadline = time.monotonic() + 60
    while not is_locked(home) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert names(home)[0].endswith(".lock")
    return waiting


def is_locked(home):
    """Whether a lock file is held, by what the system lists: to try would disturb its holder."""
    held = Path("/proc/locks").read_text(encoding="utf-8")
    return any(f":{sign.stat().st_ino} " in held for sign in home.glob(".*.lock"))


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_name_that_is_taken_is_refused_before_anything_is_spent(force, home, capsys, monkeypatch):
    monkeypatch.setattr(model_commands, "open_table", None)
    with reserved(home) as waiting:
        for name in ("model.json", home / "." / "model.json"):
            status, out, said = fit(capsys, "--out", str(name), *force)
            assert (status, out) == (1, "")
            assert "another command is at work that writes this file" in said
        waiting.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_ended_gives_the_name_back(number, home, capsys):
    with reserved(home) as waiting:
        waiting.send_signal(number)
    assert (names(home) == ["clinic.csv"]) == (number != signal.SIGKILL)
    assert fit(capsys, "--out", "model.json")[0] == 0
    assert names(home) == ["clinic.csv", "model.json"]


# -- places ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "takes the name of a file"),
        ("-", "takes the name of a file"),
        ("", "takes the name of a file"),
        ("a\0b", "takes the name of a file"),
        ("nowhere/model.json", "there is no folder"),
        (os.devnull, "a device or a pipe"),
    ],
)
def test_a_place_that_takes_no_file_is_refused_at_once(name, words, home, capsys, monkeypatch):
    monkeypatch.setattr(model_commands, "open_table", None)
    status, out, said = fit(capsys, "--out", name, "--force")
    assert (status, out) == (1, "")
    assert words in said
