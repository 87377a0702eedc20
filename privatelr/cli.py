"""The command ``privatelr``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from privatelr import __version__
from privatelr.datasets import load_dataset, load_schema
from privatelr.model import dplr

if TYPE_CHECKING:
    from collections.abc import Sequence

DEMO_FORMULA = "Species != 'setosa' ~ ."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.command == "demo":
        demo()
        return 0
    parser.print_help()
    return 0


def demo() -> None:
    """Fit iris with its public schema and print the summary."""
    print(dplr(DEMO_FORMULA, load_dataset("iris"), **load_schema("iris")))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="privatelr", description="Differentially private logistic regression from a formula."
    )
    parser.add_argument("--version", action="version", version=f"privatelr {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser(
        "demo",
        help="fit iris with its public bounds at eps=1 and print the summary",
        description='Fit "' + DEMO_FORMULA + '" on the bundled iris table with its public bounds '
        "at eps=1, and print the summary. Example: privatelr demo",
    )
    return parser
