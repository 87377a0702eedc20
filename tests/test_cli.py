"""The command, as its user meets it."""

import itertools
import warnings

import pytest

from privatelr import PrivacyWarning, __version__, cli, load
from privatelr.cli.app import COMMANDS
from privatelr.cli.outcomes import NotWrittenError, run_safely


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
