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

    from privatelr.cli import app as _app
    from privatelr.cli import outcomes as _outcomes
else:
    _app = lazy_import("privatelr.cli.app")
    _outcomes = lazy_import("privatelr.cli.outcomes")

__all__ = ["lrsimple", "main", "svmsimple"]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command ``privatelr``; return its exit status."""
    given = sys.argv[1:] if words is None else words
    if list(given) == ["--version"]:
        return _outcomes.run_safely("privatelr", _tell_version)
    return _app.main(given)


def _tell_version() -> int:
    print(f"privatelr {__version__}")
    return _outcomes.DONE


def lrsimple(words: Sequence[str] | None = None) -> int:
    """Run the command ``lrsimple``; return its exit status."""
    return _app.main_of_program("lrsimple", sys.argv[1:] if words is None else words)


def svmsimple(words: Sequence[str] | None = None) -> int:
    """Run the command ``svmsimple``; return its exit status."""
    return _app.main_of_program("svmsimple", sys.argv[1:] if words is None else words)
