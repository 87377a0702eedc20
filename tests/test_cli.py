"""The command, as its user meets it."""

import itertools
import os
import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from privatelr import PrivacyWarning, __version__, cli, load
from privatelr.cli.app import COMMANDS, privatelr_app
from privatelr.cli.outcomes import NotWrittenError, in_shell, run_safely


def test_demo(capsys, tmp_path):
    assert cli.main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "Species != 'setosa' ~ Sepal.Length" in out
    assert "epsilon = 1 (pure)" in out
    assert "from declared bounds" in out
    assert cli.main(["demo", "--json"]) == 0
    (tmp_path / "demo.json").write_text(capsys.readouterr().out, encoding="utf-8")
    assert load(tmp_path / "demo.json").nobs == 150


def test_version_and_nothing(capsys):
    assert cli.main(["--version"]) == cli.main(["--version", "demo"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"privatelr {__version__}"] * 2
    assert cli.main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("name", [*COMMANDS])
def test_help_has_an_example_every_option_explained_and_fits_a_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([*name.split(), "--help"]) == 0
    page = capsys.readouterr().out
    assert f"privatelr {name}" in page or name.endswith("simple")
    for told in ("example", "--json", "--quiet", "exit status"):
        assert told in page, told
    lines = page.splitlines()
    assert max(map(len, lines)) <= 90
    pairs = itertools.pairwise(lines)
    assert [line for line, below in pairs if line[:4] == "  --" and not below.strip()] == []


def test_the_list_of_commands_says_what_each_does(capsys):
    assert cli.main(["--help"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    for name, (_, line) in COMMANDS.items():
        assert " " in name or f"{name} {line}" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dance"], ""),
        (["demo", "dance"], ""),
        (["fit"], "formula"),
        (["fitt"], 'Did you mean "fit"?'),
        (["demo", "--jsno"], "Did you mean --json?"),
        (["demo", "--no-json"], ""),
        (["fit", "a.csv", "y ~ x", "--method", "svn"], 'Did you mean "svm"?'),
        (["lrsimple", "--line", "outputt", "a"], 'Did you mean "output"?'),
        (["fit", "a.csv", "y ~ x", "--eps", "1", "--eps", "2"], "multiple times"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(words, said, capsys):
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("privatelr: ")
    assert shown.err.count("\n") == 1
    assert said in shown.err


@pytest.mark.parametrize("name", ["privatelr", "lrsimple", "svmsimple"])
def test_the_installed_entry_points(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    assert entry_points(group="console_scripts", name=name)[name].load()() == 0
    assert f"Usage: {name} " in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_a_line(shell):
    script = privatelr_app().generate_completion(shell=shell)
    for word in ("card", "output-perturbation", "multinomial"):
        assert word in script


# -- how commands end ------------------------------------------------------------------------

SECRET = "4711"


def failing(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 1, "not enough memory"),
        (ValueError(SECRET), 1, "an internal error, ValueError in line"),
        (RecursionError(SECRET), 1, "an internal error, RecursionError"),
        (OSError(28, "No space left on device"), 3, "could not be written (no space left"),
        (NotWrittenError("the file was not written."), 3, "the file was not written"),
    ],
)
def test_whatever_happens_is_one_line_without_data(error, status, words, capsys):
    assert run_safely("program", failing(error)) == status
    said = capsys.readouterr().err
    assert said.startswith("program: ")
    assert said.count("\n") == 1
    assert words in said
    assert SECRET not in said


def test_warnings_about_privacy_are_lines_and_others_are_not(capsys):
    def action():
        warnings.warn("one\nline", PrivacyWarning, stacklevel=2)
        warnings.warn(f"overflow at {SECRET}", RuntimeWarning, stacklevel=2)
        return 0

    assert run_safely("program", action) == 0
    assert capsys.readouterr().err == "program: one line\n"


def test_a_name_that_the_terminal_cannot_show(tmp_path):
    (tmp_path / "t.csv").write_text("größe,y\n1,0\n2,1\n", encoding="utf-8")
    line = "privatelr fit t.csv 'y ~ größe' --bounds größe=0:9 --bounds y=0:1 | tail -20"
    found = shell(line, tmp_path, PYTHONIOENCODING="ascii")
    assert r"gr\xf6\xdfe" in found.stdout
    assert found.stderr.startswith("privatelr: read as numbers: y, gr")
    assert found.stderr.count("\n") == 1


def shell(line, folder, **environment):
    """Run a line in a shell where the installed programs are found first."""
    programs = str(Path(sys.executable).parent)
    path = os.pathsep.join([programs, os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "", **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "privatelr", "--version"]
    found = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert found.stdout == f"privatelr {__version__}\n"


def test_columns_that_are_called_like_options_keep_their_names():
    page = "log(balance)  I(spread)  y ~ a + (balance)  C(x)[balance=low]"
    assert in_shell(page) == page
    said = "balance=2: balance takes a share; the balance (balance), length 1 (row_norm)"
    meant = "--balance 2: balance takes a share; the balance (--balance), length 1 (--row-norm)"
    assert in_shell(said) == meant
