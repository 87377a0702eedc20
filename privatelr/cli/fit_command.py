"""The command ``privatelr fit``: a table in a file becomes a model."""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING, Any

import pandas as pd

from privatelr.cli.declarations import (
    add_declarations,
    add_table,
    number,
    read_declarations,
    text_options,
)
from privatelr.cli.files import add_output, reserved, write
from privatelr.cli.outcomes import (
    DONE,
    STATUSES,
    InputError,
    NotWrittenError,
    drop_output,
    flush_output,
    in_shell,
    reason_of,
    say,
)
from privatelr.cli.table_files import by_levels, describe, open_table
from privatelr.errors import ArgumentError, GuaranteeError, PrivacyWarning, ReleaseFileError
from privatelr.formula import Token, parse_formula, tokenize
from privatelr.mechanisms import read_request
from privatelr.mechanisms.calibration import ANALYSES, LAMBDA_RULES
from privatelr.model import dplr, dpsvm
from privatelr.numerics import HINGES, find_hinge
from privatelr.privacy import ZCDP
from privatelr.results import Fit
from privatelr.results.release_files import release_bytes

if TYPE_CHECKING:
    from privatelr.cli.outcomes import Parser

_MOST_VARIABLES = 2000
_LIMIT = (
    f"fit takes up to {_MOST_VARIABLES}, because a solver holds their square in memory; name fewer "
    "columns, or leave some out of the file"
)
_DESCRIPTION = """\
Fit a private model to a table, and print its page. The table is Parquet (by its
ending .parquet or .pq) or text: CSV in UTF-8, a first line of names, then one
record a line; --encoding names another encoding, and .gz, .bz2, .xz and .zst at the
end of its name a compression. With --out the model is also written to a file, which
holds no data.

Nothing about the types of a CSV is read off its values. A column with levels is
read as its levels are written, every other column of the formula as numbers, and
one line on standard error says which. A cell that is no number (written with a decimal
point, or as --decimal says) or none of the levels is missing, and its record counts as
a row of zeros. So a date, 1 234 and 5% are missing, and a response such as no/yes takes
--levels.

Public are the number of records, the names, all options, and that the table is
well formed. Records of the wrong width, blank lines, lines of more than 16 MiB,
quotes that are not closed, control codes and text in another encoding are errors that
name the line.
"""
_EXAMPLE = """\
examples:
  privatelr fit data.csv "y ~ age + smoker" --eps 1 --bounds age=18:90 \\
      --levels smoker=no,yes --out model.json
  privatelr fit heart.parquet "chd ~ ." --rho 0.1 --schema heart.toml --json
  privatelr fit data.csv "y ~ age" --bounds age=18:90 --eps 2 --spend inference

a schema file:
  row_norm = 2.5              # this line and intercept_scale may be left out
  [bounds]
  age = [18, 90]
  [levels]
  smoker = ["no", "yes"]
"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``fit`` to the subcommands."""
    parser = commands.add_parser(
        "fit",
        help="fit a private model to a CSV or Parquet file",
        description=_DESCRIPTION,
        epilog=f"{_EXAMPLE}\n{STATUSES}",
    )
    add_table(parser)
    parser.add_argument("formula", metavar="FORMULA", help='R formula, such as "y ~ age + smoker"')
    add_declarations(parser)
    _add_seed(add_promise(parser))
    add_model(parser)
    add_output(parser, "write the model to a file")
    parser.add_argument("--json", action="store_true", help="print the model file, not the page")
    parser.set_defaults(run=fit)


def add_promise(parser: Parser, spend: str | None = None) -> argparse._ArgumentGroup:
    """Add ``--eps``, ``--rho``, ``--delta`` and ``--spend`` with a default."""
    group = parser.add_argument_group("what is promised")
    price = group.add_mutually_exclusive_group()
    price.add_argument(
        "--eps", metavar="X", type=number, help="epsilon; default 1; 0 is the plain fit"
    )
    price.add_argument("--rho", metavar="X", type=number, help="zero-concentrated privacy instead")
    group.add_argument(
        "--delta", metavar="X", type=number, help="delta beside epsilon, far below 1/n; default 0"
    )
    group.add_argument(
        "--spend",
        metavar="SHARES",
        type=_spend,
        help="what the promise is spent on: inference adds standard errors, tests and intervals "
        "beside the coefficients, with the usual shares, and coefficients=0.6,inference=0.4 sets "
        f"the shares; default: {spend or 'the coefficients alone'}",
        default=spend,
    )
    return group


def _add_seed(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--seed", metavar="N", type=_seed, help="repeats the noise, for tests; voids the guarantee"
    )


def add_model(parser: Parser) -> None:
    """Add ``--model``, its loss, lambda, and how the noise is added."""
    group = parser.add_argument_group("what is fitted, and how")
    group.add_argument(
        "--model", choices=("logistic", "svm"), default="logistic", help="default: logistic"
    )
    group.add_argument("--loss", choices=HINGES, help="hinge of the svm; default huber")
    group.add_argument("--h", metavar="X", type=number, help="bend of the hinge; default 0.5")
    group.add_argument(
        "--lambda",
        metavar="X",
        dest="lambda_",
        type=_lambda,
        help=f"penalty: a number, or a rule, one of {', '.join(LAMBDA_RULES)}; default auto",
    )
    group.add_argument(
        "--output-perturbation",
        action="store_true",
        help="add the noise to the result; by default it is added to the objective",
    )
    group.add_argument("--analysis", choices=ANALYSES, help="default: the tightest proven bound")


def _lambda(text: str) -> float | str:
    if text in LAMBDA_RULES:
        return text
    try:
        return float(text)
    except ValueError:
        rules = ", ".join(LAMBDA_RULES)
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor one of {rules}"
        ) from None


def _spend(text: str) -> str | dict[str, float]:
    if text.strip() == "inference":
        return "inference"
    shares: dict[str, float] = {}
    try:
        for item in text.split(","):
            name, _, share = item.partition("=")
            if name.strip() in shares:
                raise ValueError
            shares[name.strip()] = float(share)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither inference nor of the form coefficients=0.6,inference=0.4"
        ) from None
    return shares


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 40):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def fit(chosen: argparse.Namespace) -> int:
    """Read the table, fit, write the model, print the page."""
    arguments = read_arguments(chosen)
    with reserved(chosen.out, chosen.force):  # before anything is spent
        return _fit(arguments, chosen)


def _fit(arguments: dict[str, Any], chosen: argparse.Namespace) -> int:
    formula, frame, declared = read_table(chosen)
    if chosen.seed is not None:
        say(
            "privatelr",
            f"--seed {chosen.seed}: the noise can be replayed, so this fit has no privacy; "
            "a release takes no --seed.",
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="seed=", category=PrivacyWarning)  # just said
        fitter = dpsvm if chosen.model == "svm" else dplr
        model = fitter(formula, frame, **arguments, **declared)
    return _deliver(model, chosen)


def _deliver(model: Fit, chosen: argparse.Namespace) -> int:
    """Write and print; what was paid for is printed even if it cannot be written."""
    page, written = in_shell(model), None
    try:
        if chosen.out is not None or chosen.json:
            data = release_bytes(model)
            page = data.decode().removesuffix("\n") if chosen.json else page
            if chosen.out is not None:
                write(chosen.out, data, chosen.force)
                written = chosen.out
    except ReleaseFileError as error:
        raise NotWrittenError(f"the model cannot be saved: {error}.") from None
    finally:
        _print_page(page, written)
    return DONE


def _print_page(page: str, written: str | None) -> None:
    """Print; a page beside a written file may stay unread, lest a retry pay for both again."""
    if written is None:
        print(page)
        return
    try:
        print(page)
        flush_output()
    except BrokenPipeError:
        drop_output()
    except OSError as error:
        drop_output()
        raise NotWrittenError(
            f"--out {written!r} was written, but not the page ({reason_of(error)})."
        ) from None


def read_arguments(chosen: argparse.Namespace) -> dict[str, Any]:
    """Keywords of `dplr`, which is asked now whether it takes them: a table may be long."""
    if chosen.rho is not None and chosen.delta is not None:
        raise ArgumentError("--delta goes with --eps, and --rho has none.")
    if chosen.model != "svm":
        for option in ("h", "loss"):
            if getattr(chosen, option) is not None:
                raise ArgumentError(f"--{option} goes with --model svm.")
    named = ("eps", "delta", "spend", "lambda_", "seed", "analysis", "h", "loss")
    given = {name: getattr(chosen, name) for name in named if getattr(chosen, name) is not None}
    given["op"] = not chosen.output_perturbation
    if chosen.model == "svm":
        find_hinge(given.get("loss", "huber"), given.get("h", 0.5))
    try:
        if chosen.rho is not None:
            given["eps"] = ZCDP(chosen.rho)
        eps, delta, op = given.get("eps", 1.0), given.get("delta", 0.0), given["op"]
        read_request(eps, delta, chosen.spend, chosen.lambda_, op, chosen.analysis, "increase")
    except GuaranteeError as error:
        raise InputError(str(error)) from None  # a number out of its range, before any facts
    return given


def _require_narrow(formula: str, columns: int) -> None:
    """Refuse a dot for far too many columns, without reading a formula of them."""
    tokens = tokenize(formula)
    named = {token.text for token in tokens if token.is_name}
    if Token("name", ".") in tokens and columns - len(named) > _MOST_VARIABLES:
        raise InputError(f"the dot stands for {columns:,} columns here, and {_LIMIT}.")


def read_table(chosen: argparse.Namespace) -> tuple[str, pd.DataFrame, dict[str, Any]]:
    """The formula without ``.``, the columns that it names, and what is declared about them."""
    with open_table(chosen.data, **text_options(chosen)) as table:
        _require_narrow(chosen.formula, len(table.names))
        declared = read_declarations(chosen, table.names)
        formula = parse_formula(chosen.formula, table.names)
        if len(formula.variables) > _MOST_VARIABLES:
            raise InputError(f"the formula has {len(formula.variables)} variables, and {_LIMIT}.")
        # a term that is taken out again, as in . - age, is in the text and not in the model
        mentioned = {token.text for token in tokenize(formula.text) if token.is_name}
        levels = declared["levels"]
        wanted = {
            name: by_levels(name, levels.get(name)) for name in table.names if name in mentioned
        }
        frame, readings = table.read(wanted)
    used = {name: readings[name] for name in formula.variables}
    say("privatelr", f"{describe(used, table.numbers_note)}.")
    for argument in ("bounds", "levels"):
        known = declared[argument].items()
        declared[argument] = {name: value for name, value in known if name in wanted}
    return formula.text, frame, declared
