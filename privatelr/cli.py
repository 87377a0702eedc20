"""The command ``privatelr``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from privatelr import __version__
from privatelr.audit.plot import require_format
from privatelr.audit.registered import run
from privatelr.audit.settings import FULL, QUICK
from privatelr.datasets import load_dataset, load_schema
from privatelr.errors import PrivateLRError
from privatelr.model import dplr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.audit.table import Row

DEMO_FORMULA = "Species != 'setosa' ~ ."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.command == "demo":
        demo()
        return 0
    if chosen.command == "audit":
        try:
            return audit(chosen)
        except PrivateLRError as refusal:
            parser.error(str(refusal))
    parser.print_help()
    return 0


def demo() -> None:
    """Fit iris with its public schema and print the summary."""
    print(dplr(DEMO_FORMULA, load_dataset("iris"), **load_schema("iris")))


def audit(chosen: argparse.Namespace) -> int:
    """Try to break every mechanism and print what came of it; 1 if a claim is wrong."""
    if chosen.plot is not None:
        require_format(chosen.plot)  # before the work, not after it
    found = run(chosen.eps, effort=FULL if chosen.full else QUICK, report=_say)
    print(found.to_json() if chosen.json else found)
    if chosen.plot is not None:
        found.plot(chosen.plot)
    return 0 if found.ok else 1


def _say(row: Row) -> None:
    print(f"audited: {row.placement}, {row.loss}, {row.claim}: {row.verdict}", file=sys.stderr)


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
    _add_audit(commands)
    return parser


def _add_audit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "audit",
        help="try to break every mechanism, and print claims beside what was found",
        description="Search for the neighbours on which each registered mechanism does worst, "
        "compute its privacy loss there from densities, and bound it from sampled outputs. The "
        "exit status is 1 if a claim is wrong. Example: privatelr audit --plot audit.png",
    )
    parser.add_argument(
        "--eps", type=float, default=1.0, help="epsilon of the claims, from 0.01 to 10; 1"
    )
    parser.add_argument(
        "--full", action="store_true", help="search longer and sample 20 times: hours, not a minute"
    )
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--plot", metavar="FILE", help="also draw the table: .png, .svg or .pdf")
