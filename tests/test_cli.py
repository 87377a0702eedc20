"""The command, as its user meets it."""

import os
import shutil
import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import argcomplete
import pytest

from privatelr import PrivacyWarning, __version__, cli, load
from privatelr.cli import main_command
from privatelr.cli.outcomes import NotWrittenError, Terminated, in_shell, run_safely

COMMANDS = (
    "demo",
    "plan",
    "fit",
    "bounds",
    "levels",
    "predict",
    "card",
    "lrsimple",
    "svmsimple",
    "audit",
)


def stopped(arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    return stop.value.code


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
    assert cli.main(["--version"]) == stopped(["--version", "demo"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"privatelr {__version__}"] * 2
    assert cli.main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_has_an_example_and_fits_a_terminal(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert stopped([*([name] if name else []), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    text = " ".join(lines).lower()
    assert "example" in text
    assert f"privatelr {name or 'demo'}" in text.partition("example")[2]
    assert max(map(len, lines)) <= 95
    assert "exit status" in text or name == "demo"


def test_every_command_has_json():
    for name in COMMANDS:
        _, commands = main_command.parsers()
        assert "--json" in commands.choices[name].format_help(), name


@pytest.mark.parametrize("arguments", [["dance"], ["demo", "dance"], ["demo", "--jso"], ["fit"]])
def test_a_wrong_command_line_is_one_line_and_status_2(arguments, capsys):
    assert stopped(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("privatelr: ")
    assert shown.err.count("\n") == 1
    assert "--help" in shown.err


@pytest.mark.parametrize("program", [*COMMANDS, "check"])
def test_an_option_that_is_near_is_suggested(program, capsys):
    parser = main_command.parsers()[1].choices[program]
    needed = [one for one in parser._actions if one.required and one.nargs != "*"]
    words = [part for one in needed for part in (*one.option_strings[:1], "1")]
    for option in (one for action in parser._actions for one in action.option_strings):
        if option.startswith("--"):
            assert stopped([program, *words, f"{option}x=1"]) == 2
            assert f"{option}x=1; did you mean {option!r}? (see" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["fitt"], "'fit'"),
        (["fit", "a.csv", "y ~ x", "--out", "a.json", "--model", "SVM"], "'svm'"),
        (["lrsimple", "--line", "outputt", "a"], "'output'"),
    ],
)
def test_a_choice_that_is_near_is_suggested(arguments, meant, capsys):
    assert stopped(arguments) == 2
    said = capsys.readouterr().err
    assert f"; did you mean {meant}? (see" in said
    assert said.count("\n") == 1


def test_the_programs_suggest_options_too(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.svmsimple(["a", "--Strict"])
    assert stop.value.code == 2
    assert "did you mean '--strict'? (see svmsimple --help)." in capsys.readouterr().err


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
        (Terminated(), 143, "ended by SIGTERM"),
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


@pytest.mark.parametrize("name", ["privatelr", "lrsimple", "svmsimple"])
def test_the_installed_entry_points(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as stop:
        entry_points(group="console_scripts", name=name)[name].load()()
    assert stop.value.code == 0
    assert f"usage: {name} " in capsys.readouterr().out


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "privatelr", "--version"]
    found = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert found.stdout == f"privatelr {__version__}\n"


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("privatelr ca", {"card"}),
        ("privatelr fit data.csv --output-p", {"--output-perturbation"}),
        ("privatelr fit data.csv --model ", {"logistic", "svm"}),
    ],
)
def test_a_shell_can_complete_a_line(line, completed, tmp_path):
    """As bash asks: through variables, answered on a descriptor, here that of a file."""
    words = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    told = tmp_path / "told"
    words |= {"_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(told)}
    command = [sys.executable, "-m", "privatelr"]
    subprocess.run(command, env={**os.environ, **words}, capture_output=True, check=False)
    assert completed <= {word.strip() for word in told.read_text("utf-8").split("\n")}


TAB = """
eval "$CODE"
COMP_LINE=$1; COMP_POINT=${#1}; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_TYPE=9
_python_argcomplete privatelr "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
echo "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "completed"),
    [("privatelr ledger ch", "check"), ("privatelr fit d.csv --method multi", "multinomial")],
)
def test_bash_completes_a_line(line, completed, tmp_path):
    """By the code that ``register-python-argcomplete privatelr`` prints, as the document says."""
    command = tmp_path / "privatelr"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m privatelr "$@"\n', "utf-8")
    command.chmod(0o755)
    told = {"CODE": argcomplete.shellcode(["privatelr"])}
    told["PATH"] = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    told["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    bash = ["bash", "--norc", "-c", TAB, "bash", line]
    done = subprocess.run(bash, env={**os.environ, **told}, capture_output=True, check=True)
    assert done.stdout.decode().split() == [completed]


def test_dashes_do_not_make_options_alike(capsys):
    with pytest.raises(SystemExit):
        cli.main(["demo", "--eps", "1"])
    assert "did you mean" not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["demo", "--jsno"])
    assert "did you mean '--json'" in capsys.readouterr().err


def test_columns_that_are_called_like_options_keep_their_names():
    page = "log(balance)  I(spread)  y ~ a + (balance)  C(x)[balance=low]"
    assert in_shell(page) == page
    said = "balance=2: balance takes a share; the balance (balance), length 1 (row_norm)"
    meant = "--balance 2: balance takes a share; the balance (--balance), length 1 (--row-norm)"
    assert in_shell(said) == meant
