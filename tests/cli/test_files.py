"""Files are written whole or not at all, and none is lost by mistake."""

import errno
import functools
import os
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


def test_a_file_system_without_links(home, capsys, monkeypatch):
    monkeypatch.setattr(os, "link", without_links)
    assert fit(capsys, "--out", "model.json")[0] == 0
    assert load("model.json").nobs == 40
    assert names(home) == ["clinic.csv", "model.json"]


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_full_disk_leaves_no_piece_and_the_page_is_printed(force, home, capsys, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if force:
        (home / "model.json").write_text(OTHER, encoding="utf-8")
    before = names(home)
    monkeypatch.setattr(os, "fsync", full)
    status, out, said = fit(capsys, "--out", "model.json", *force)
    assert status == 3
    assert "epsilon = 1 (pure)" in out
    assert said == "privatelr: --out 'model.json' was not written (no space left on device)."
    assert names(home) == before
    assert not force or (home / "model.json").read_text(encoding="utf-8") == OTHER


# -- places ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "takes a file, and this is none"),
        ("-", "takes the name of a file"),
        ("", "takes the name of a file"),
        ("a\0b", "takes the name of a file"),
        ("nowhere/model.json", "there is no folder"),
        (os.devnull, "takes a file, and this is none"),
    ],
)
def test_a_place_that_takes_no_file_is_refused_at_once(name, words, home, capsys, monkeypatch):
    monkeypatch.setattr(model_commands, "open_table", None)
    status, out, said = fit(capsys, "--out", name, "--force")
    assert (status, out) == (1, "")
    assert words in said
