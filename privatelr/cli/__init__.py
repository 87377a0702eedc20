"""The commands ``privatelr``, ``lrsimple`` and ``svmsimple``.

What they need takes a second to import, so that nothing of it is imported here: an interrupt is
answered from the first moment on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr.cli.interrupts import leaving_at_once
from privatelr.later import later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.cli import command as _command
    from privatelr.cli import programs as _programs
else:
    _command = later("privatelr.cli.command")
    _programs = later("privatelr.cli.programs")

__all__ = ["lrsimple", "main", "svmsimple"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command ``privatelr``; returns the exit status."""
    with leaving_at_once("privatelr"):
        return _command.main(arguments)


def lrsimple(arguments: Sequence[str] | None = None) -> int:
    """The command ``lrsimple``; returns the exit status."""
    with leaving_at_once("lrsimple"):
        return _programs.lrsimple(arguments)


def svmsimple(arguments: Sequence[str] | None = None) -> int:
    """The command ``svmsimple``; returns the exit status."""
    with leaving_at_once("svmsimple"):
        return _programs.svmsimple(arguments)
