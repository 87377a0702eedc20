"""The commands ``privatelr``, ``lrsimple`` and ``svmsimple``; each returns its exit status."""

from privatelr.cli.command import main
from privatelr.cli.programs import lrsimple, svmsimple

__all__ = ["lrsimple", "main", "svmsimple"]
