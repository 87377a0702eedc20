"""The command ``plan``: what a study would show, before there is a table."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from privatelr.cli import files
from privatelr.cli.model_commands import OF_RECORDS, read_arguments, read_prior
from privatelr.cli.options import (
    DeclaredRows,
    GuessOptions,
    Model,
    Output,
    PlanOptions,
    Promise,
    Records,
    given,
    read_declarations,
    together,
)
from privatelr.cli.outcomes import DONE, OutputError, in_shell
from privatelr.cli.tables import in_memory, open_table, reading_of
from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.formula import tokenize, with_terms
from privatelr.planning import StudyPlan, make_plan
from privatelr.plot_style import require_plot
from privatelr.privacy import ZCDP


def plan(
    formula: str | None = None,
    *,
    n: float | None = None,
    records: Records = Records(),
    declared: DeclaredRows = DeclaredRows(),
    promise: Promise = Promise(),
    model: Model = Model(),
    guesses: GuessOptions = GuessOptions(),
    question: PlanOptions = PlanOptions(),
    output: Output = Output(),
) -> int:
    r"""Plan a private study before any data is touched.

    The plan has the noise, the standard errors, and the length of 95% intervals that "privatelr
    fit ... --spend inference" will give, and what another epsilon or delta would change.

    No data is read. Every covariate of the formula takes --bounds or --levels; the response need
    not be declared, but for --method multinomial. If FORMULA is a whole number, it is the number
    of columns of a design that nothing is known of, with its intercept.

    What is not public has to be guessed: --balance, --spread, --c-index and --correlation, or a
    public --pilot, a table of records like those of the study. Never give the data of the study as
    a pilot: a plan protects nothing.

    For example:
      privatelr plan "chd ~ age + famhist" --n 462 --eps 1 --bounds age=15:65 \
          --levels famhist=Absent,Present --width 0.1 --term age
      privatelr plan 5 --n 10000 --eps 0.5 --plot widths.png
      privatelr plan --schema study.toml --n 900
      privatelr plan "Species ~ ." --n 150 --eps 4 --method multinomial --schema iris.toml

    Parameters
    ----------
    formula
        R formula, such as "y ~ age + smoker", or a number.
    n
        Number of records, or of persons.
    """
    if formula is None or n is None:
        name, key = ("FORMULA", "formula") if formula is None else ("--n", "n")
        raise ArgumentError(f"{name} is needed, or the key {key} in the file of --schema.")
    groups = (records, declared, promise, model, guesses, question, output)
    chosen = together(*groups, formula=formula, n=n)
    if chosen.term is not None and chosen.width is None and chosen.plot is None:
        raise ArgumentError("--term goes with --width or --plot.")
    if chosen.share is not None and chosen.width is None:
        raise ArgumentError("--share goes with --width.")
    arguments = _read(chosen)
    if chosen.plot is not None and Path(require_plot(chosen.plot)).exists():
        raise OutputError(f"--plot {chosen.plot!r}: the file exists, and plan replaces none.")
    is_number = formula.isascii() and formula.isdigit() and len(formula) < 10
    outlook = make_plan.plan(int(formula) if is_number else formula, chosen.n, **arguments)
    needed = {} if chosen.width is None else _needed(outlook, chosen)
    if chosen.plot is not None:
        files.save_picture(partial(outlook.plot, chosen.term), chosen.plot, (7.0, 4.5))
    if chosen.json:
        found = json.loads(outlook.to_json())
        print(json.dumps({**found, "needed": needed} if needed else found, indent=1))
        return DONE
    print(in_shell(outlook))
    if needed:
        term = "every covariate" if chosen.term is None else chosen.term
        often = "half" if needed["share"] == 0.5 else f"{needed['share']:.0%}"
        long = f"up to {chosen.width:g} long in {often} of all studies"
        print(in_shell(f"\nFor 95% intervals of {term} {long}:"))
        for name in ("n", "eps"):
            found = needed[name]
            print(in_shell(f"  {needed[f'no_{name}'] if found is None else f'{name} = {found:,}'}"))
    return DONE


def _read(chosen: Any) -> dict[str, Any]:
    """Keywords for `plan`; of a pilot, only columns that are declared or named are read."""
    several = chosen.method == "multinomial"
    if chosen.spend is None and not several:
        chosen.spend = "inference"
    found = read_arguments(chosen)
    if several:
        found["loss"] = "softmax"
    if chosen.method == "svm":
        published = chosen.analysis == "cms11" or found.get("eps") == 0  # as in dpsvm
        found.setdefault("loss", "huber" if published else "softplus")
    found |= read_declarations(chosen)
    found |= given(chosen, "balance", "c_index", "correlation", *OF_RECORDS)
    found |= read_prior(chosen.prior)
    if chosen.rho is not None:
        who = {"person": chosen.person, "records_per_person": chosen.records_per_person or 1}
        found["eps"] = ZCDP(chosen.rho, make_plan.neighbours_of(with_terms(chosen.formula, **who)))
    if chosen.spread:
        named = dict(chosen.spread)
        if "" in named and len(chosen.spread) > 1:
            raise ArgumentError(
                "--spread: it takes one number for all columns, or NAME=X for some."
            )
        found["spread"] = named.get("", named)
    if chosen.pilot is None:
        return found
    mentioned = {token.text for token in tokenize(chosen.formula) if token.is_name}
    with open_table([chosen.pilot]) as table:  # types follow from declarations, as in a fit
        found |= read_declarations(chosen, table.types)
        levels = found["levels"]
        names = [name for name in table.names if name in mentioned | levels.keys()]
        pilot, _ = table.read({name: reading_of(name, levels.get(name)) for name in names})
        found["pilot"] = in_memory(pilot, names)
    return found


def _needed(outlook: StudyPlan, chosen: Any) -> dict[str, Any]:
    """The n and the epsilon that an interval of this length needs, or sentences if none do."""
    share = 0.5 if chosen.share is None else chosen.share
    found: dict[str, Any] = {"width": chosen.width, "term": chosen.term, "share": share}
    for name, search in (("n", outlook.needed_n), ("eps", outlook.needed_eps)):
        try:
            found[name] = search(chosen.width, chosen.term, share=share)
        except GuaranteeError as refusal:
            found[name], found[f"no_{name}"] = None, str(refusal)
    return found
