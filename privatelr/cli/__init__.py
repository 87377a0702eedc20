"""The commands ``privatelr``, ``lrsimple`` and ``svmsimple``; each returns its exit status.

What a command works with is imported when it runs, so that its version is told at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from privatelr import __version__
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.cli import main_command as _commands
    from privatelr.cli import outcomes as _outcomes
    from privatelr.cli import program_commands as _programs
else:
    _programs = lazy_import("privatelr.cli.program_commands")
    _commands = lazy_import("privatelr.cli.main_command")
    _outcomes = lazy_import("privatelr.cli.outcomes")

__all__ = ["lrsimple", "main", "svmsimple"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``privatelr``; return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    if list(words) == ["--version"]:
        return _outcomes.run_safely("privatelr", _tell_version)
    return _commands.main(arguments)


def _tell_version() -> int:
    print(f"privatelr {__version__}")
    return _outcomes.DONE


def lrsimple(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``lrsimple``; return its exit status."""
    return _programs.lrsimple(arguments)


def svmsimple(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``svmsimple``; return its exit status."""
    return _programs.svmsimple(arguments)
