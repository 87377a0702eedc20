"""The command, as its user meets it."""

import subprocess
import sys

import pytest

from privatelr import __version__, cli


def test_demo(capsys):
    assert cli.main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "Species != 'setosa' ~ Sepal.Length" in out
    assert "epsilon = 1 (pure)" in out
    assert "from declared bounds" in out


def test_help_and_version(capsys):
    for arguments, words in ((["--help"], "demo"), (["--version"], __version__)):
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        assert stop.value.code == 0
        assert words in capsys.readouterr().out
    assert cli.main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


def test_an_unknown_command_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["dance"])
    assert stop.value.code == 2
    assert "demo" in capsys.readouterr().err


def test_the_installed_entry_point():
    code = (
        "import sys; from importlib.metadata import entry_points; sys.argv = ['privatelr', 'demo'];"
        "sys.exit(entry_points(group='console_scripts', name='privatelr')['privatelr'].load()())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Promise" in found.stdout
    assert found.stderr == ""
