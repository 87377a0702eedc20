"""The commands ``privatelr``, ``lrsimple`` and ``svmsimple``; each returns its exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from privatelr.cli import app as _app

__all__ = ["lrsimple", "main", "svmsimple"]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command ``privatelr``; return its exit status."""
    return _app.main(sys.argv[1:] if words is None else words)


def lrsimple(words: Sequence[str] | None = None) -> int:
    """Run the command ``lrsimple``; return its exit status."""
    return _app.main_of_program("lrsimple", sys.argv[1:] if words is None else words)


def svmsimple(words: Sequence[str] | None = None) -> int:
    """Run the command ``svmsimple``; return its exit status."""
    return _app.main_of_program("svmsimple", sys.argv[1:] if words is None else words)
