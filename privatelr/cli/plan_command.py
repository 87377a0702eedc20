"""The command ``privatelr plan``: what a fit will find out, before there is a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privatelr.cli.declarations import add_declarations, number, read_declarations
from privatelr.cli.fit_command import add_model, add_promise, read_arguments
from privatelr.cli.outcomes import DONE, STATUSES, OutputError, in_shell
from privatelr.cli.table_files import by_levels, open_table
from privatelr.datasets import load_schema
from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.formula import tokenize
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    import argparse

    import pandas as pd

    from privatelr.audit import audit_table
    from privatelr.cli.outcomes import Parser
    from privatelr.planning import make_plan
    from privatelr.planning.study_plan import StudyPlan
else:
    make_plan = lazy_import("privatelr.planning.make_plan")
    audit_table = lazy_import("privatelr.audit.audit_table")

_DESCRIPTION = """\
Plan a private study before any data is touched: the noise, standard errors, and the
length of 95% intervals that "privatelr fit ... --spend inference" will give, beside
other promises, mechanisms and penalties.

No data is read. Every covariate of the formula takes --bounds or --levels; the
response need not be declared. Where FORMULA is a whole number, it is the number of
columns of a design that nothing is known of, its intercept included.

What is not public has to be guessed: --balance, --spread and --c-index, or a public
--pilot, a table of records like those of the study. Never give the data of the study
as a pilot: a plan protects nothing.
"""
_EXAMPLE = """\
examples:
  privatelr plan "chd ~ age + famhist" --n 462 --eps 1 --bounds age=15:65 \\
      --levels famhist=Absent,Present --width 0.1 --term age
  privatelr plan 5 --n 10000 --eps 0.5 --plot widths.png
"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``plan`` to the subcommands."""
    parser = commands.add_parser(
        "plan",
        help="plan a study: noise, standard errors and widths before there is a table",
        description=_DESCRIPTION,
        epilog=f"{_EXAMPLE}\n{STATUSES}",
    )
    parser.add_argument(
        "formula", metavar="FORMULA", help='R formula, such as "y ~ age + smoker", or a number'
    )
    parser.add_argument("--n", metavar="N", type=number, required=True, help="number of records")
    add_declarations(parser)
    add_promise(parser, "inference")
    add_model(parser)
    _add_guesses(parser)
    _add_questions(parser)
    parser.set_defaults(run=plan_study, seed=None)


def _add_guesses(parser: Parser) -> None:
    group = parser.add_argument_group("what is guessed")
    group.add_argument(
        "--balance", metavar="X", type=number, help="share of the positive class; default 0.5"
    )
    group.add_argument(
        "--spread",
        metavar="X",
        type=number,
        help="standard deviation of a numeric column over half the width of its bounds; "
        "default 0.4",
    )
    group.add_argument(
        "--c-index",
        metavar="X",
        type=number,
        help="C-index of the true probabilities; default 0.75",
    )
    group.add_argument(
        "--pilot", metavar="FILE", help="public table in place of guesses, CSV or Parquet"
    )


def _add_questions(parser: Parser) -> None:
    group = parser.add_argument_group("what is asked")
    group.add_argument(
        "--width",
        metavar="X",
        type=number,
        help="length of an interval, for which n and epsilon are looked for",
    )
    group.add_argument(
        "--term", metavar="NAME", help="its coefficient; by default all but the intercept"
    )
    group.add_argument(
        "--plot", metavar="FILE", help="draw widths against epsilon: .png, .svg or .pdf"
    )
    group.add_argument("--json", action="store_true", help="print JSON in place of the page")


def plan_study(chosen: argparse.Namespace) -> int:
    """Plan, search, draw, print."""
    arguments = _read(chosen)
    if chosen.plot is not None:
        _require_new(chosen.plot)  # before the work, not after it
    outlook = make_plan.plan(_formula(chosen.formula), chosen.n, **arguments)
    needed = {} if chosen.width is None else _needed(outlook, chosen.width, chosen.term)
    if chosen.plot is not None:
        _draw(outlook, chosen.term, chosen.plot)
    if chosen.json:
        found = json.loads(outlook.to_json())
        print(json.dumps({**found, "needed": needed} if needed else found, indent=1))
        return DONE
    print(in_shell(outlook))
    if needed:
        print(f"\n{in_shell(_told(needed))}")
    return DONE


def _formula(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _read(chosen: argparse.Namespace) -> dict[str, Any]:
    """Keywords of `plan`."""
    if chosen.term is not None and chosen.width is None and chosen.plot is None:
        raise ArgumentError("--term goes with --width or --plot.")
    given = read_arguments(chosen)
    if chosen.model == "svm":
        given.setdefault("loss", "huber")
    schema = load_schema(Path(chosen.schema)) if chosen.schema is not None else {}
    listed = [name for name, _ in (*chosen.bounds, *chosen.levels)]
    names = [*schema.get("bounds", ()), *schema.get("levels", ()), *listed]
    declared = read_declarations(chosen, names)
    for guess in ("balance", "spread", "c_index"):
        if getattr(chosen, guess) is not None:
            given[guess] = getattr(chosen, guess)
    if chosen.pilot is not None:
        given["pilot"] = _read_pilot(chosen, declared["levels"])
    return {**given, **declared}


def _read_pilot(chosen: argparse.Namespace, levels: dict[str, Any]) -> pd.DataFrame:
    """The columns of a public table that are declared or named; types as they are declared."""
    mentioned = {token.text for token in tokenize(chosen.formula) if token.is_name}
    with open_table(chosen.pilot, None) as table:
        wanted = {
            name: by_levels(name, levels.get(name))
            for name in table.names
            if name in mentioned or name in levels
        }
        return table.read(wanted)[0]


def _needed(outlook: StudyPlan, width: float, term: str | None) -> dict[str, Any]:
    """What an interval of this length takes; a sentence where nothing suffices."""
    found: dict[str, Any] = {"width": width, "term": term}
    for name, search in (("n", outlook.needed_n), ("eps", outlook.needed_eps)):
        try:
            found[name] = search(width, term)
        except GuaranteeError as refusal:
            found[name], found[f"no_{name}"] = None, str(refusal)
    return found


def _told(needed: dict[str, Any]) -> str:
    """The answers in words."""
    term = "every covariate" if needed["term"] is None else needed["term"]
    head = f"For 95% intervals of {term} up to {needed['width']:g} long:"
    lines = [
        f"  {name} = {needed[name]:,}" if needed[name] is not None else f"  {needed[f'no_{name}']}"
        for name in ("n", "eps")
    ]
    return "\n".join([head, *lines])


def _require_new(path: str) -> None:
    """Refuse a picture that could not be written, or would replace a file."""
    if Path(audit_table.require_plot(path)).exists():
        raise OutputError(f"--plot {path!r}: the file exists, and plan replaces none.")


def _draw(outlook: StudyPlan, term: str | None, path: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    outlook.plot(term, ax=figure.subplots())
    figure.savefig(path, dpi=150)
