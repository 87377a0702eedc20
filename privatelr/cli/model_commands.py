"""The commands ``demo``, ``check``, ``fit``, ``predict`` and ``card``: a model and its use."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial
from inspect import signature
from typing import Annotated, Any, get_args

import numpy as np
import pandas as pd
from cyclopts import Parameter

from privatelr.cli import files
from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.options import (
    DeclaredRows,
    FittedModel,
    LedgerOptions,
    Output,
    Promise,
    Records,
    Seed,
    TextFormat,
    Written,
    given,
    read_declarations,
    together,
)
from privatelr.cli.outcomes import DONE, InputError, as_json, in_shell, note
from privatelr.cli.tables import (
    is_file,
    open_table,
    read_columns,
    reading_of,
    reading_of_variable,
)
from privatelr.datasets import load_dataset, load_schema
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    PrivacyWarning,
    SchemaError,
    listed,
)
from privatelr.formula import Formula, parse_formula, tokenize, with_terms
from privatelr.mechanisms import USUAL_DELTA, read_request, read_target
from privatelr.model import check as check_data
from privatelr.model import dplr, dpmultinom, dpsvm
from privatelr.numerics import ThresholdRule, find_hinge
from privatelr.privacy import REPLACE_PERSON, ZCDP
from privatelr.privacy.accounting import of_public_data
from privatelr.results import DataCheck, PredictionType
from privatelr.results.pages.card import CardFormat
from privatelr.results.release_files import file_bytes, load
from privatelr.selection.choices import read_roc_share
from privatelr.selection.models import dplpsvm, dpsimplex

OF_RECORDS = ("weights", "subset", "by", "person", "records_per_person")
DEMO_FORMULA = "Species != 'setosa' ~ ."
FormulaKey = Annotated[str | None, Parameter(show=False)]
"""The formula by a key of the schema file."""


def demo(*, output: Output = Output()) -> int:
    """Fit the bundled iris table with its public bounds at eps=1, and print the summary.

    The formula is "Species != 'setosa' ~ .".

    For example:
      privatelr demo
    """
    with of_public_data():
        model = dplr(DEMO_FORMULA, load_dataset("iris"), **load_schema("iris"))
    if output.json:
        print(file_bytes(model).decode().removesuffix("\n"))
    else:
        print(in_shell(model))
    return DONE


def check(
    *data: str,
    formula: FormulaKey = None,
    text: TextFormat = TextFormat(),
    records: Records = Records(),
    declared: DeclaredRows = DeclaredRows(),
    output: Output = Output(),
) -> int:
    r"""Count what a fit would use of a table.

    The page has the usable, missing, clipped and undeclared values of each variable, and the
    records of each class.

    The page is NOT PRIVATE. It goes to standard error, for those who hold the table; nothing is
    charged, and nothing is written. Do not publish it, and declare bounds and levels from public
    knowledge and not from this page.

    For example:
      privatelr check data.csv "y ~ age + smoker" --bounds age=18:90 \
          --levels smoker=no,yes
      privatelr check heart.parquet "chd ~ ." --schema heart.toml

    Parameters
    ----------
    data
        The table, in one file or several, and the formula; - reads CSV from standard input.
    """
    if sys.stderr is None:
        raise InputError("standard error is closed, and the page of a check goes nowhere else.")
    with redirect_stderr(io.StringIO()) as readings:  # they follow what an alarm says
        whole, frame, declarations = _read_table(data, formula, text, records, declared)
    counted = check_data(whole, frame, **declarations)
    said = readings.getvalue()
    page = said + as_json(_numbers(counted)) if output.json else f"{in_shell(counted)}\n\n{said}"
    print(page.removesuffix("\n"), file=sys.stderr, flush=True)
    return DONE


def _numbers(counted: DataCheck) -> dict[str, Any]:
    """The numbers of a check, which are not private, as plain values."""
    table = counted.table.astype(object).where(counted.table.notna(), None)
    return {
        "private": False,
        "formula": counted.formula,
        "n": counted.counts.n,
        "classes": counted.classes.to_dict(),
        "unusable": counted.counts.zero_rows,
        "persons": counted.persons,
        "variables": table.to_dict(orient="index"),
        "doubts": list(counted.doubts),
    }


def fit(
    *data: str,
    formula: FormulaKey = None,
    text: TextFormat = TextFormat(),
    records: Records = Records(),
    declared: DeclaredRows = DeclaredRows(),
    promise: Promise = Promise(),
    seed: Seed = None,
    model: FittedModel = FittedModel(),
    charge: LedgerOptions = LedgerOptions(),
    written: Written = Written(),
) -> int:
    r"""Fit a private model to a table, and print its page.

    The table is Parquet (its name ends in .parquet or .pq), Feather (.feather, .arrow, .ipc) or
    text: CSV in UTF-8, first a line of names, then one record after another. The option --encoding
    names another encoding; .gz, .bz2, .xz and .zst at the end of a name tell how the text is
    compressed. Several files of Parquet, a folder of them, or a pattern such as 'data/*.parquet'
    are one table. With --out the model is also written to a file, which holds no data.

    Nothing about the types of a CSV is read off its values. A column with levels is read as text,
    unless all of them are numbers, or true and false. Every other column of the formula is read as
    numbers, and one line on standard error says which. A cell that is neither a number (with a
    decimal point, or as --decimal says) nor one of the levels is missing, and its record counts as
    a row of zeros. So a date, 1 234 and 5% are missing, and a response such as no/yes takes
    --levels.

    Public are the number of records, the names, all options, and that the table is well formed. A
    record of the wrong width, a quote that is not closed, and text in another encoding are errors.

    For example:
      privatelr fit data.csv "y ~ age + smoker" --eps 1 --bounds age=18:90 \
          --levels smoker=no,yes --out model.json
      privatelr fit heart.parquet "chd ~ ." --rho 0.1 --schema heart.toml --json
      privatelr fit data/*.parquet "chd ~ age" --bounds age=18:90
      privatelr fit data.csv "y ~ age" --bounds age=18:90 --eps 2 --spend inference
      privatelr fit data.csv --schema study.toml --method svm --out svm.json
      privatelr fit iris.csv "Species ~ ." --method multinomial --schema iris.toml

    Keys of a schema file are the options, but for --out, --seed and the like:
      formula = "y ~ age + smoker"
      eps = 1.0
      spend = "inference"
      [bounds]
      age = [18, 90]
      [levels]
      smoker = ["no", "yes"]

    Parameters
    ----------
    data
        The table, in one file or several, and the formula; - reads CSV from standard input.
    seed
        Repeat the noise of this number, for tests. It voids the guarantee.
    """
    chosen = together(records, declared, promise, model)
    arguments = read_arguments(chosen) | read_prior(model.prior) | ledger_of(charge)
    files.require_place(written.out, written.force)  # before a budget is spent
    whole, frame, declarations = _read_table(data, formula, text, records, declared, promise.eps)
    if whole.person is not None and promise.rho is not None:
        arguments["eps"] = ZCDP(promise.rho, REPLACE_PERSON)
    with seed_said(seed):
        fitted = _fitter(chosen)(whole, frame, **arguments, **declarations, seed=seed)
    content = partial(files.content_of, fitted)
    files.deliver_paid(in_shell(fitted), content, written, fitted.entry, prints_file=written.json)
    return DONE


@contextmanager
def seed_said(seed: int | None) -> Iterator[None]:
    """Say in one line that a seed voids the promise, in place of a warning."""
    if seed is not None:
        note(
            "privatelr",
            f"--seed {seed}: the noise can be replayed, so this release has no privacy.",
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="seed=", category=PrivacyWarning)
        yield


def read_prior(prior: list[tuple[str, Any]]) -> dict[str, Any]:
    """The keyword for coefficients to which a penalty draws: numbers by names, or a model."""
    named = {name: mean for name, mean in prior if mean is not None}
    if len(prior) == 1 and not named:
        return {"prior": files.read_model(prior[0][0])[0]}
    if len(named) < len(prior):
        raise ArgumentError("--prior: it takes NAME=X for each of some coefficients, or one FILE.")
    return {"prior": named} if named else {}


def _fitters() -> dict[str, Callable[..., Any]]:
    """The function behind each ``--method``."""
    return {
        "lr": dplr,
        "svm": dpsvm,
        "lp": dplpsvm,
        "simplex": dpsimplex,
        "multinomial": dpmultinom,
    }


def _fitter(chosen: Any) -> Callable[..., Any]:
    return _fitters()[chosen.method or "lr"]


_READ_APART = {
    *("formula", "data", "bounds", "levels", "intercept_scale", "do_scale", "prior", "ledger"),
    *("row_norm", *OF_RECORDS),
}
"""Arguments that are read with the table, or are spelled in another way."""


def read_arguments(chosen: Any) -> dict[str, Any]:
    """Keywords for the function that fits, checked before the table is read, which may take long.

    Declarations are not part of them, nor is the data; ``--rho`` is `eps`.
    """
    require_one_price(chosen)
    parameters = {name for fitter in _fitters().values() for name in signature(fitter).parameters}
    arguments = given(chosen, *sorted(parameters - _READ_APART))
    if chosen.op is not None:
        arguments["op"] = not chosen.op
    if chosen.do_scale is not None:
        arguments["do_scale"] = chosen.do_scale == "private" and "private"
    others = [*given(chosen, *OF_RECORDS), *read_declarations(chosen)]
    _require_taken(chosen, [*arguments, *others, *(["prior"] if chosen.prior else [])])
    try:
        if chosen.rho is not None:
            arguments["eps"] = ZCDP(chosen.rho)
        _require_price(chosen, arguments)
    except GuaranteeError as error:
        raise InputError(str(error)) from None  # a number on the command line is out of its range
    rule = arguments.get("threshold")
    if rule in get_args(ThresholdRule) and "roc" not in (chosen.spend or ()):
        raise ArgumentError(
            f"--threshold {rule}: it is read from a curve, which --spend roc=0.25 buys; without "
            "one it would be learned from the table, and could not be saved."
        )
    return arguments


def require_one_price(chosen: Any) -> None:
    """Refuse a promise that is told twice."""
    if chosen.rho is not None and chosen.eps is not None:
        raise ArgumentError("--eps and --rho exclude each other.")
    if chosen.rho is not None and chosen.delta is not None:
        raise ArgumentError("--delta goes with --eps, and --rho has none.")


def _require_price(chosen: Any, arguments: Mapping[str, Any]) -> None:
    """Refuse prices, penalties and losses that no table could make right."""
    if chosen.method == "svm":
        find_hinge(arguments.get("loss"), arguments.get("h", 0.5))
    eps, delta, op = arguments.get("eps", 1.0), chosen.delta, arguments.get("op", True)
    if chosen.method in ("lp", "simplex"):
        read_target(eps, USUAL_DELTA if delta is None else delta, USUAL_DELTA)
        read_roc_share(chosen.spend)
        return
    small = arguments.get("on_small_lambda", "increase")
    read_request(eps, delta or 0.0, chosen.spend, chosen.lambda_, op, chosen.analysis, small)


def _require_taken(chosen: Any, names: Iterable[str]) -> None:
    """Refuse an option that the function of another method takes, and this one does not."""
    own = signature(_fitter(chosen)).parameters
    for name in names:
        if name in own:
            continue
        fitters = _fitters().items()
        takers = [method for method, fit in fitters if name in signature(fit).parameters]
        option = {"op": "output_perturbation", "lambda_": "lambda"}.get(name, name)
        raise ArgumentError(
            f"--{option.replace('_', '-')} goes with --method {' or '.join(takers)}, and this is "
            f"--method {chosen.method or 'lr'}."
        )


def _read_table(
    words: Sequence[str],
    text: str | None,
    form: TextFormat,
    records: Records,
    declared: DeclaredRows,
    eps: float | None = None,
) -> tuple[Formula, Any, dict[str, Any]]:
    """The formula without ``.``, the columns that it names, and their declarations."""
    paths = [*words]
    if len(paths) > 1 and not is_file(paths[-1]):
        text = paths.pop()
    if not paths or text is None:
        raise ArgumentError("DATA and a formula are needed, or the key formula of --schema.")
    with open_table(paths, **vars(form)) as table:
        whole = with_terms(text, table.names, **given(records, *OF_RECORDS))
        declarations = read_declarations(declared, table.types)
        formula = parse_formula(whole, table.names)
        # a term that is removed, as in . - age, is in the text of the formula but not in the model
        mentioned = {token.text for token in tokenize(formula.text) if token.is_name}
        levels = declarations["levels"]
        if eps != 0:
            _require_declared(table.numbers_note, formula, declarations)
        names = [*formula.variables, *(name for name in table.names if name in mentioned)]
        wanted = {name: reading_of(name, levels.get(name)) for name in names}
        person = None if formula.person is None else formula.person.column
        frame = read_columns(table, wanted, person)
    for argument in ("bounds", "levels"):
        known = declarations[argument].items()
        declarations[argument] = {name: value for name, value in known if name in wanted}
    return formula, frame, declarations


def _require_declared(untyped: str, formula: Formula, declarations: Mapping[str, Any]) -> None:
    """Refuse columns of a file without types that nobody declared, as any of them may be text."""
    known = {**declarations["bounds"], **declarations["levels"]}
    left = [name for name in formula.variables if name not in known]
    if untyped and left and declarations.get("row_norm") is None:
        raise SchemaError(
            f"no declaration of {listed(left)}: the file does not say what holds numbers or texts; "
            f"add --bounds {left[0]}=LOW:HIGH or --levels {left[0]}=NO,YES, or --row-norm, which "
            "takes columns without a declaration as numbers."
        )


def predict(
    model: str,
    *data: str,
    text: TextFormat = TextFormat(),
    type: PredictionType | None = None,
    threshold: float | ThresholdRule | None = None,
    written: Written = Written(),
) -> int:
    """Predict each record of a table by a saved model, in the order of the table.

    The output is CSV: a line with the name of the prediction, then one line for each record. Where
    a value is missing or a level is unknown, the cell is empty and is spelled "", so that no reader
    of CSV skips the line. The table is read as the table of the model was.

    For example:
      privatelr predict model.json new.csv
      privatelr predict model.json new.csv --type classes --threshold 0.3 --out classes.csv
      head -5 new.csv | privatelr predict model.json - --json

    Parameters
    ----------
    model
        A file that fit has written.
    data
        The table, in one file or several; - reads CSV from standard input.
    type
        What is predicted. The default is probabilities, or the classes of an svm, which has no
        probabilities. The values response, class and prob are the names of R.
    threshold
        Split classes here: a probability, a margin of an svm, or youden or topleft if the model
        bought roc.
    """
    require_data(data)
    files.require_place(written.out, written.force)
    fitted, _ = files.read_model(model)
    first = getattr(fitted, "first", fitted)  # of strata, which share their declarations
    spec = first.spec
    variables, reads = spec.variables, spec.formula.covariates
    reads = reads if first is fitted else (*reads, fitted.by)
    with open_table(data, **vars(text)) as table:
        wanted = {
            name: reading_of_variable(variables[name]) for name in reads if name in table.names
        }
        # a model without covariates still needs the number of records
        frame, _ = table.read(wanted or {table.names[0]: "numbers"})
    asked = {} if threshold is None else {"threshold": threshold}
    if asked and spec.response.kind == "classes":
        raise ArgumentError("--threshold: the most probable of several classes has none.")
    predicted = fitted.predict(frame, type, **asked)
    if asked and predicted.name != "class":
        raise ArgumentError("--threshold goes with --type classes.")
    lines = predicted.to_csv(index=False, lineterminator="\n")
    files.deliver(_as_json(predicted) if written.json else lines, written)
    return DONE


def require_data(data: Sequence[str]) -> None:
    """Refuse a command without a table."""
    if not data:
        raise ArgumentError("DATA: a table is needed.")


def _as_json(predicted: pd.Series[Any] | pd.DataFrame) -> str:
    """The names and values of predictions; what cannot be predicted is null."""
    names = predicted.columns if isinstance(predicted, pd.DataFrame) else predicted.name
    values = predicted.to_numpy().tolist()
    return as_json({"name": np.array(names).tolist(), "predictions": values})


def card(model: str, *, format: CardFormat = "markdown", written: Written = Written()) -> int:
    """Print the privacy card of a saved model.

    The card says what is promised to whom, what is not, and how to check it.

    For example:
      privatelr card model.json --format html --out card.html

    Parameters
    ----------
    model
        A file that fit has written, or an answer.
    format
        The format of the card; default markdown.
    """
    files.require_place(written.out, written.force)
    text = load(model).card(format)
    if written.json:
        text = as_json({"format": format, "card": text})
    files.deliver(text, written)
    return DONE
