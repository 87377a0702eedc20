"""The command ``privatelr audit``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from privatelr.cli.outcomes import say
from privatelr.errors import ArgumentError, PrivateLRError, require_number
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    import argparse

    from privatelr.audit import audit_table, checks, mutations, run_audit
    from privatelr.audit.audit_table import Audit, Row
    from privatelr.audit.checks import Check, Effort
    from privatelr.audit.mutations import Shown
    from privatelr.cli.outcomes import Parser
else:
    audit_table = lazy_import("privatelr.audit.audit_table")
    run_audit = lazy_import("privatelr.audit.run_audit")
    mutations = lazy_import("privatelr.audit.mutations")
    checks = lazy_import("privatelr.audit.checks")
    audit_table = lazy_import("privatelr.audit.audit_table")


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``audit`` to the subcommands."""
    parser = commands.add_parser(
        "audit",
        help="try to break every mechanism, and print claims beside what was found",
        description="Search for the neighbours on which each registered mechanism does worst, "
        "compute its privacy loss there from densities, and bound it from sampled outputs. Check "
        "rows of random formulas, the noise of every calibration, releases, plays, ledgers, and "
        "what other libraries say. What raises counts as wrong. The "
        "exit status is 1 if a claim is wrong, 2 if nothing was audited, and 3 if it stopped "
        "before its end or the picture could not be written. Example: "
        "privatelr audit --plot audit.png",
    )
    parser.add_argument(
        "--eps", type=float, default=1.0, help="epsilon of the claims, from 0.01 to 10; default 1"
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="search longer and sample 20 times: five to ten minutes per loss",
    )
    parser.add_argument(
        "--mutations",
        action="store_true",
        help="plant bugs in the package and print which part of the audit catches each: one to "
        "three minutes; the exit status is 1 if one is not caught",
    )
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--plot", metavar="FILE", help="also draw the table: .png, .svg or .pdf")
    parser.set_defaults(run=lambda chosen: _audit(parser, chosen))


def _audit(parser: Parser, chosen: argparse.Namespace) -> int:
    try:
        return audit(chosen)
    except PrivateLRError as refusal:
        parser.error(str(refusal))


def audit(chosen: argparse.Namespace) -> int:
    """Try to break every mechanism and print what came of it.

    Returns 1 if a claim is wrong, and 3 if none is but the audit stopped before its end or
    the picture could not be written.
    """
    if chosen.mutations:
        return _score(chosen)
    takes = "a number from 0.01 to 10"
    require_number(ArgumentError, "--eps", chosen.eps, takes, at_least=0.01, at_most=10)
    if chosen.plot is not None:
        audit_table.require_plot(chosen.plot)  # before the work, not after it
    found, whole = _audit_all(chosen.eps, checks.FULL if chosen.full else checks.QUICK)
    print(found.to_json() if chosen.json else found)
    drawn = chosen.plot is None or _draw(found, chosen.plot)
    if not found.ok:
        return 1
    return 0 if drawn and whole else 3


def _score(chosen: argparse.Namespace) -> int:
    """Plant bugs and print which were caught; 1 if one was not."""
    if chosen.full or chosen.plot is not None:
        raise ArgumentError("--mutations: takes neither --full nor --plot beside it.")

    def report(shown: Shown) -> None:
        print(f"planted: {shown}", file=sys.stderr)

    found = mutations.run(report=report)
    print(found.to_json() if chosen.json else found)
    return 0 if found.ok else 1


def _audit_all(epsilon: float, effort: Effort) -> tuple[Audit, bool]:
    """What was found, and whether that is all; an error after the first row ends the audit."""
    rows: list[Row] = []
    checks: list[Check] = []

    def report(found: Row | Check) -> None:
        if isinstance(found, audit_table.Row):
            rows.append(found)
        else:
            checks.append(found)
        print(f"audited: {found.title}: {found.verdict}", file=sys.stderr)

    try:
        return run_audit.run(epsilon, effort=effort, report=report), True
    except PrivateLRError as refusal:
        if not (rows or checks):
            raise
        say("privatelr", f"the audit stopped: {refusal}")
        return audit_table.Audit(tuple(rows), tuple(checks)), False


def _draw(found: Audit, path: str) -> bool:
    """Whether the picture was written; if not, one line says why."""
    try:
        found.plot(path)
    except (OSError, PrivateLRError) as refusal:
        say("privatelr", f"--plot {path} was not written: {refusal}")
        return False
    return True
