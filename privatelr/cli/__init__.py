"""The command ``privatelr``."""

from privatelr.cli.command import main

__all__ = ["main"]
