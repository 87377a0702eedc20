"""The commands ``privatelr``, ``lrsimple`` and ``svmsimple``; each returns its exit status."""

from privatelr.cli.c_programs import lrsimple, svmsimple
from privatelr.cli.main_command import main

__all__ = ["lrsimple", "main", "svmsimple"]
