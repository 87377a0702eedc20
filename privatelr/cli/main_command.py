"""The command ``privatelr``: its parser, and its subcommands ``demo`` and ``audit``.

A module of commands has a function ``add_commands(commands)``. Each of its parsers has a default
``run``, a function that takes the parsed arguments, prints its result, and returns an exit status.
It raises errors, which `run_safely` turns into one line and an exit status.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from privatelr import __version__
from privatelr.cli import (
    answer_commands,
    ledger_commands,
    model_commands,
    outcomes,
    plan_command,
    program_commands,
    schema_commands,
    study_file,
)
from privatelr.cli.option_readers import Parser
from privatelr.cli.options import add_command
from privatelr.cli.outcomes import (
    DONE,
    NOT_WRITTEN,
    REFUSED,
    STATUSES,
    in_shell,
    run_safely,
    say,
)
from privatelr.datasets import load_dataset, load_schema
from privatelr.errors import ArgumentError, PrivateLRError, require_number
from privatelr.lazy_import import lazy_import
from privatelr.model import dplr
from privatelr.plot_style import require_plot
from privatelr.privacy.accounting import NAMED, of_public_data
from privatelr.results.release_files import file_bytes

if TYPE_CHECKING:
    import argcomplete

    from privatelr.audit import audit_table, checks, run_audit
else:
    argcomplete = lazy_import("argcomplete")
    audit_table = lazy_import("privatelr.audit.audit_table")
    run_audit = lazy_import("privatelr.audit.run_audit")
    checks = lazy_import("privatelr.audit.checks")

DEMO_FORMULA = "Species != 'setosa' ~ ."
_EXAMPLE = """\
examples:
  privatelr demo
  privatelr schema init data.csv --out study.toml
  privatelr fit data.csv "y ~ age + smoker" --bounds age=18:90 \\
      --levels smoker=no,yes --out model.json
  privatelr predict model.json new.csv
  privatelr compare model.json other.json

privatelr COMMAND --help tells about a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``privatelr``; returns the exit status."""
    return run_safely("privatelr", lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    parser, _ = parsers()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for the words that may follow
        argcomplete.autocomplete(parser)
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return DONE
    if chosen.quiet:
        outcomes.be_quiet()
    study_file.complete(chosen)
    status: int = chosen.run(chosen)
    return status


def demo(chosen: argparse.Namespace) -> int:
    """Fit iris with its public schema and print the summary."""
    with of_public_data():
        model = dplr(DEMO_FORMULA, load_dataset("iris"), **load_schema("iris"))
    print(file_bytes(model).decode().removesuffix("\n") if chosen.json else in_shell(model))
    if os.environ.get(NAMED):
        if chosen.json:
            outcomes.note("privatelr", _UNCHARGED)
        else:
            print(_UNCHARGED)
    return DONE


_UNCHARGED = (
    f"The ledger of {NAMED} was not charged: iris is a public table of flowers,\n"
    "and a fit of it costs nobody anything."
)


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
        f"print the summary.\n\n\nexample:\n  privatelr demo\n\n{STATUSES}",
    )
    plan_command.add_commands(commands)
    schema_commands.add_commands(commands)
    model_commands.add_commands(commands)
    answer_commands.add_commands(commands)
    ledger_commands.add_commands(commands)
    program_commands.add_commands(commands)
    _add_audit(commands)
    return parser, commands


# -- audit ----------------------------------------------------------------------------------------

_TEXT = (
    "Search for the neighbours on which each registered mechanism does worst, compute its "
    "privacy loss there from densities, and bound it from sampled outputs. Check rows of random "
    "formulas, the noise of every calibration, releases, plays, ledgers, and what other "
    "libraries say. What raises counts as wrong. The exit status is 1 if a claim is wrong, 2 if "
    "nothing was audited, and 3 if it stopped before its end or the picture could not be "
    "written. Example: privatelr audit --plot audit.png"
)


def _add_audit(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``audit`` to the subcommands."""
    line = "try to break every mechanism, and print claims beside what was found"
    add_command(commands, "audit", audit, line, _TEXT)


def audit(chosen: argparse.Namespace) -> int:
    """Try to break every mechanism, and print the findings.

    The exit status is 1 if a claim is wrong. If no claim is wrong, it is 3 if the audit stopped
    before its end or the picture could not be written.
    """
    try:
        with of_public_data():
            return _audit(chosen)
    except PrivateLRError as refusal:
        parser: Parser = chosen.parser
        parser.error(str(refusal))


def _audit(chosen: argparse.Namespace) -> int:
    takes = "a number from 0.01 to 10"
    require_number(ArgumentError, "--eps", chosen.eps, takes, at_least=0.01, at_most=10)
    if chosen.plot is not None:
        require_plot(chosen.plot)  # an error must not come after minutes of work
    rows: list[audit_table.Row] = []
    others: list[checks.Check] = []

    def report(found: audit_table.Row | checks.Check) -> None:
        if isinstance(found, audit_table.Row):
            rows.append(found)
        else:
            others.append(found)
        outcomes.progress(f"audited: {found.title}: {found.verdict}")

    effort, status = checks.FULL if chosen.full else checks.QUICK, DONE
    try:
        found = run_audit.run(chosen.eps, effort=effort, report=report)
    except PrivateLRError as refusal:
        if not (rows or others):
            raise
        say("privatelr", f"the audit stopped: {refusal}")
        found, status = audit_table.Audit(tuple(rows), tuple(others)), NOT_WRITTEN
    print(found.to_json() if chosen.json else found)
    if chosen.plot is not None:
        try:
            found.plot(chosen.plot)
        except (OSError, PrivateLRError) as refusal:
            say("privatelr", f"--plot {chosen.plot} was not written: {refusal}")
            status = NOT_WRITTEN
    return status if found.ok else REFUSED
