"""The command ``privatelr``: its parser, and its subcommand ``demo``.

A module of commands has a function ``add_commands(commands)``. Each of its parsers has a default
``run``, a function that takes the parsed arguments, prints its result, and returns an exit status.
It raises errors, which `run_safely` turns into one line and an exit status.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from privatelr import __version__
from privatelr.cli import audit_command, c_programs, model_commands
from privatelr.cli.options import Parser, add_command
from privatelr.cli.outcomes import DONE, STATUSES, in_shell, run_safely
from privatelr.datasets import load_dataset, load_schema
from privatelr.model import dplr
from privatelr.results.release_files import release_bytes

DEMO_FORMULA = "Species != 'setosa' ~ ."
_EXAMPLE = """\
examples:
  privatelr demo
  privatelr fit data.csv "y ~ age + smoker" --bounds age=18:90 \\
      --levels smoker=no,yes --out model.json
  privatelr predict model.json new.csv

privatelr COMMAND --help tells about a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``privatelr``; returns the exit status."""
    return run_safely("privatelr", lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    parser, _ = parsers()
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return DONE
    status: int = chosen.run(chosen)
    return status


def demo(chosen: argparse.Namespace) -> int:
    """Fit iris with its public schema and print the summary."""
    model = dplr(DEMO_FORMULA, load_dataset("iris"), **load_schema("iris"))
    print(release_bytes(model).decode().removesuffix("\n") if chosen.json else in_shell(model))
    return DONE


def parsers() -> tuple[Parser, argparse._SubParsersAction[Parser]]:
    """The parser of the command, and those of its subcommands."""
    parser = Parser(
        prog="privatelr",
        description="Differentially private logistic regression and linear SVMs from a formula.",
        epilog=f"{_EXAMPLE}\n{STATUSES}",
    )
    parser.add_argument("--version", action="version", version=f"privatelr {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    add_command(
        commands,
        "demo",
        demo,
        "fit iris with its public bounds at eps=1 and print the summary",
        f'Fit "{DEMO_FORMULA}" on the bundled iris table with its public bounds at eps=1, and '
        "print the summary.\n\n\nexample:\n  privatelr demo",
    )
    model_commands.add_commands(commands)
    c_programs.add_commands(commands)
    audit_command.add_commands(commands)
    return parser, commands
