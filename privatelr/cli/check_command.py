"""The command ``privatelr check``: what a fit would be able to use of a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from privatelr.cli.declarations import add_declarations, add_table
from privatelr.cli.fit_command import read_table
from privatelr.cli.outcomes import DONE, STATUSES, InputError, in_shell
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    import argparse

    from privatelr import checking
    from privatelr.cli.outcomes import Parser
else:
    checking = lazy_import("privatelr.checking")

_DESCRIPTION = """\
Count what a fit would use of a table: of each variable the usable, missing,
clipped and undeclared values, and of the response the records of each class.

The page is NOT PRIVATE. It goes to standard error, for those who hold the table;
nothing is charged, and nothing is written. Do not publish it, and declare bounds
and levels from public knowledge and not from this page.
"""
_EXAMPLE = """\
examples:
  privatelr check data.csv "y ~ age + smoker" --bounds age=18:90 \\
      --levels smoker=no,yes
  privatelr check heart.parquet "chd ~ ." --schema heart.toml
"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``check`` to the subcommands."""
    parser = commands.add_parser(
        "check",
        help="count, locally and not privately, what a fit would use of a table",
        description=_DESCRIPTION,
        epilog=f"{_EXAMPLE}\n{STATUSES}",
    )
    add_table(parser)
    parser.add_argument("formula", metavar="FORMULA", help='R formula, such as "y ~ age + smoker"')
    add_declarations(parser)
    parser.set_defaults(run=check)


def check(chosen: argparse.Namespace) -> int:
    """Read the table as ``fit`` does, and show the page to those who hold it."""
    if sys.stderr is None:
        raise InputError("standard error is closed, and the page of a check goes nowhere else.")
    formula, frame, declared = read_table(chosen)
    print(in_shell(checking.check(formula, frame, **declared)), file=sys.stderr)
    return DONE
