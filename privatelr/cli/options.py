"""The options of all commands, in groups: a field is an option, and its docstring is its help.

A schema file may give most of them, by their names without dashes and with ``_`` for ``-``.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, dataclass_transform

from cyclopts import App, ArgumentCollection, Group, Parameter, Token

from privatelr.cli.outcomes import InputError
from privatelr.datasets import load_study
from privatelr.errors import SchemaError, listed, or_meant, show
from privatelr.mechanisms.calibration.lambda_rules import LambdaRule
from privatelr.mechanisms.calibration.pure import Analysis
from privatelr.numerics import ThresholdRule
from privatelr.sources import declare_schema

# -- how a text is read --------------------------------------------------------------------------


def _read(
    read: Callable[[str], Any], form: str, metavar: str, *, repeated: bool = False
) -> Parameter:
    """An option whose text is read by a function, which fails where it has not the form."""

    def convert(_: Any, tokens: Sequence[Token]) -> Any:
        values = []
        for token in tokens:
            try:
                values.append(read(token.value))
            except (ValueError, LookupError, csv.Error):
                raise ValueError(f"{token.value!r} is not {form}") from None
        return values if repeated else values[0]

    return Parameter(
        converter=convert, n_tokens=1, accepts_keys=False, metavar=metavar, show_choices=False
    )


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 40):
        raise ValueError
    return int(text)


def _encoding(text: str) -> str:
    "text".encode(text)  # codecs for anything other than text raise an error, too
    return codecs.lookup(text).name


def _separator(text: str) -> str:
    character = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(character) != 1 or character.isalnum() or character in "\"' .+-_\r\n\0":
        raise ValueError
    return character


def _bounds(text: str) -> tuple[str, tuple[float, float]]:
    name, _, pair = text.rpartition("=")
    low, high = map(float, pair.split(":"))
    return _named(name), (low, high)


def _levels(text: str) -> tuple[str, list[str]]:
    name, _, written = text.partition("=")
    levels = next(csv.reader([written], strict=True, skipinitialspace=True), None)
    if not levels:
        raise ValueError
    return _named(name), levels


def _named(name: str) -> str:
    if not name.strip():
        raise ValueError
    return name.strip()


def _spend(text: str) -> str | dict[str, float]:
    if text.strip() == "inference":
        return "inference"
    items = [item.partition("=") for item in text.split(",")]
    shares = {name.strip(): float(share) for name, _, share in items}
    if len(shares) < len(items):
        raise ValueError
    return shares


def _spread(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    return name.strip(), float(value)


def _prior(text: str) -> tuple[str, Any]:
    name, _, value = text.rpartition("=")
    try:
        mean, *sd = map(float, value.split(":", 1))
        return name.strip(), (mean, *sd) if sd else mean
    except ValueError:
        return text, None  # the name of a file


Whole = Annotated[int | None, _read(_whole, "a whole number from 0", "N")]


# -- groups of options ---------------------------------------------------------------------------


_GROUPS = {
    title: Group.create_ordered(title)
    for title in (
        *("What is public about the table", "Records", "Text files", "What is promised"),
        *("What is fitted, and how", "What is guessed", "What is asked", "What is charged"),
        "Output",
    )
}


@dataclass_transform(kw_only_default=True, frozen_default=True)
def group_of_options(title: str) -> Callable[[type], type]:
    """Make a frozen dataclass of a class, whose fields are options under this title."""
    as_options = Parameter(name="*", group=_GROUPS[title])
    return lambda group: as_options(dataclass(frozen=True, kw_only=True)(group))


@group_of_options("Output")
class Output:
    """What is printed."""

    json: bool = False
    """Print JSON in place of the page. From fit and demo it is the model file."""
    quiet: bool = False
    """Print nothing on standard error but errors, and the page of check."""


@group_of_options("Output")
class Written(Output):
    """A file that is written."""

    out: str | None = None
    """Write the result to a file. An existing file is refused."""
    force: bool = False
    """Let --out and --save replace existing files."""


@group_of_options("Text files")
class TextFormat:
    """The format of a text file."""

    separator: Annotated[
        str | None, _read(_separator, "a character such as ';', or tab", "CHARACTER")
    ] = None
    """Character between the cells, or tab. The default is a comma, a semicolon if the decimal
    mark is a comma, and a tab in .tsv."""
    decimal: Literal[".", ","] | None = None
    """What numbers have before their fraction; default point. A number with the other one counts as
    missing, and so does 1 234."""
    encoding: Annotated[
        str | None, _read(_encoding, "an encoding such as latin-1, cp1252 or utf-16", "NAME")
    ] = None
    """Encoding, such as latin-1, cp1252 or utf-16; default utf-8."""


@group_of_options("What is public about the table")
class Declared:
    """Declarations of columns."""

    schema: Annotated[str | None, Parameter(metavar="FILE.toml")] = None
    """TOML file with bounds, levels, and other options as keys. The command line overrides it."""
    bounds: Annotated[
        list[tuple[str, tuple[float, float]]],
        _read(_bounds, "of the form NAME=LO:HI, such as age=18:90", "NAME=LO:HI", repeated=True),
    ] = field(default_factory=list)
    """Limits of a numeric column, as in age=18:90. May be repeated. For the command bounds they are
    an outer range, which may be far too wide."""
    levels: Annotated[
        list[tuple[str, list[str]]],
        _read(_levels, "of the form NAME=A,B, such as smoker=no,yes", "NAME=A,B", repeated=True),
    ] = field(default_factory=list)
    """Levels of a column, the reference first, as in smoker=no,yes. A level with a comma is quoted
    as in CSV. Levels such as 1,2 are numbers, but for a column of strings in Parquet. May be
    repeated."""


@group_of_options("What is public about the table")
class DeclaredRows(Declared):
    """Declarations of columns and rows."""

    row_norm: float | None = None
    """Limit to the length of a row of covariates. With --do-scale private it is in lengths of a
    typical row."""
    intercept_scale: float | None = None
    """Constant in the intercept column. The default is 0.5; for scaled rows it is 1 if epsilon is
    pure, else 0.25, or 0.5 with inference."""


@group_of_options("Records")
class Records:
    """Which records count, and how much."""

    weights: str | None = None
    """Column of weights, or an expression such as 1/p. A record counts its weight over the largest
    one by the bounds."""
    subset: str | None = None
    """Condition on declared columns, such as 'age > 50'. Records that fail it become rows of zeros,
    and still belong to n."""
    by: str | None = None
    """Column with declared levels. Each level gets a fit; together the fits cost as one."""
    person: str | None = None
    """Column that tells persons apart. All records of a person are protected together; the number
    of persons is then public, and the number of records is not."""
    records_per_person: Whole = None
    """A record counts one over this number, or over the number of its person's records if that is
    larger; default 1."""


Person = Annotated[str | None, Parameter(group=_GROUPS["What is promised"])]
Seed = Annotated[Whole, Parameter(group=_GROUPS["What is promised"])]


@group_of_options("What is promised")
class PriceOptions:
    """A guarantee."""

    eps: float | None = None
    """Epsilon. For fit and plan the default is 1, and 0 is the plain fit; answers have no
    default."""
    rho: float | None = None
    """Zero-concentrated privacy in place of epsilon."""
    delta: float | None = None
    """Delta for --eps, far below 1/n; default 0."""


@group_of_options("What is promised")
class Promise(PriceOptions):
    """A guarantee, and what it is spent on."""

    spend: Annotated[
        dict[str, float] | Literal["inference"] | None,
        _read(_spend, "inference, or of the form coefficients=0.6,inference=0.4", "SHARES"),
    ] = None
    """What the promise is spent on. The value inference adds standard errors, tests and intervals
    in the usual shares; coefficients=0.6,inference=0.4 sets the shares; roc=0.25 adds a ROC curve.
    The default is coefficients alone, and for plan inference."""
    do_scale: Literal["private", "no"] | None = None
    """Whether rows are centred and scaled by means and second moments, which are released first for
    a tenth of the promise. By default they are where the noise of these is small."""


@group_of_options("What is fitted, and how")
class Model:
    """A method and its loss, penalty and mechanism."""

    method: Literal["lr", "svm", "lp", "simplex", "multinomial"] | None = None
    """The value lr is logistic regression, the default; svm is a support vector machine; lp and
    simplex choose few columns of many; multinomial is for three or more classes."""
    loss: Literal["softplus", "huber", "logistic"] | None = None
    """Hinge of the svm, by default softplus. For simplex it is huber, the default, or logistic."""
    h: float | None = None
    """Bend of the hinge; default 0.5."""
    lambda_: float | LambdaRule | None = None
    """Penalty: a number, or the rule that sets it; default auto."""
    op: Annotated[
        bool | None,
        Parameter(name="--output-perturbation", negative="--no-output-perturbation"),
    ] = None
    """Add the noise to the result. By default it is added to the objective."""
    analysis: Analysis | None = None
    """Proof that sets the noise. The default is the tightest proven bound."""
    prior: Annotated[
        list[tuple[str, Any]], _read(_prior, "", "NAME=X[:SD]|FILE", repeated=True)
    ] = field(default_factory=list)
    """Coefficient to which the penalty draws, as in age=0.03, or age=0.03:0.01 with a standard
    deviation; may be repeated. Or a file that fit has written, with an earlier model."""


@group_of_options("What is fitted, and how")
class FittedModel(Model):
    """A method, and what only a fit needs."""

    threshold: float | Literal["fixed"] | ThresholdRule | None = None
    """Threshold of classes. The value fixed, the default, is 0.5, or a margin of 0. The values
    youden and topleft take it from the curve that --spend roc=X buys."""


@group_of_options("What is charged")
class LedgerOptions:
    """Who pays."""

    ledger: str | None = None
    """Charge this ledger before the table is read, as well as the ledger that PRIVATELR_LEDGER
    names. The command ledger create makes one."""
    note: str | None = None
    """Keep a text with the charge. By default none is kept."""


@group_of_options("What is guessed")
class GuessOptions:
    """What a plan has to guess."""

    balance: float | None = None
    """Share of the positive class; default 0.3."""
    spread: Annotated[
        list[tuple[str, float]],
        _read(
            _spread, "a number, or of the form NAME=X, such as age=0.3", "X|NAME=X", repeated=True
        ),
    ] = field(default_factory=list)
    """Standard deviation of a numeric column over half the width of its bounds, or of one column,
    as in age=0.3, which may be repeated. By default it is less where bounds are wide."""
    c_index: float | None = None
    """C-index of the true probabilities; default 0.75."""
    correlation: float | None = None
    """Correlation of two numeric columns; default 0.5."""
    pilot: str | None = None
    """Public table in place of guesses."""


@group_of_options("What is asked")
class PlanOptions:
    """What a plan is asked."""

    width: float | None = None
    """Length of an interval, for which n and epsilon are looked for."""
    term: str | None = None
    """Term whose coefficient has the interval. By default it is every term but the intercept."""
    share: float | None = None
    """Share of studies that reach the width; default 0.5."""
    plot: str | None = None
    """Draw widths against epsilon: .png, .svg or .pdf."""


def given(chosen: object, *names: str) -> dict[str, Any]:
    """Options that have a value, from the command line or by default, as keywords."""
    values = {name: getattr(chosen, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def together(*groups: object, **others: Any) -> SimpleNamespace:
    """The options of several groups as attributes of one object."""
    return SimpleNamespace(**{k: v for group in groups for k, v in vars(group).items()}, **others)


# -- declarations and the schema file ------------------------------------------------------------

_STUDY = (
    TextFormat,
    DeclaredRows,
    Records,
    Promise,
    FittedModel,
    LedgerOptions,
    GuessOptions,
)
STUDY_KEYS = {
    *("formula", "n", "output_perturbation", "width", "term", "share"),
    *(own.name.rstrip("_") for group in _STUDY for own in fields(group)),
} - {"schema", "op"}
"""All keys of a schema file: the options of fit, check and plan that are not about one call."""


def fill_from_study(_: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give options that the command line leaves out the values of the schema file.

    The price in a file is that of a fit: the commands bounds and levels ask for one of their own.
    """
    by_key = {one.name.lstrip("-").replace("-", "_").lower(): one for one in arguments}
    schema = by_key.get("schema")
    if schema is None or not schema.tokens:
        return
    path = schema.tokens[-1].value
    study = read_schema(path)[1]
    left_out = {key for key in by_key if by_key[key].tokens} | {"bounds", "levels"}
    if left_out & {"eps", "rho"} or commands[0] in ("bounds", "levels"):
        left_out |= {"eps", "rho"}
    if ("rho" in by_key and by_key["rho"].tokens) or commands[0] in ("bounds", "levels"):
        left_out |= {"delta"}
    for key in [key for key in study if key in by_key and key not in left_out]:
        told = f"{key} in schema {show(path)}"
        texts = ["no"] if key == "do_scale" and study[key] is False else [*_texts(study[key])]
        if key == "output_perturbation" and isinstance(study[key], bool):
            by_key[key].append(Token(keyword=told, source="", implicit_value=study[key]))
        elif not texts:
            raise InputError(f"{told}: it takes a value such as that of its option.")
        else:
            if key == "spend":
                texts = [",".join(texts)]
            for place, text in enumerate(texts):
                by_key[key].append(Token(keyword=told, value=text, index=place))


def _texts(value: Any) -> Iterator[str]:
    """The texts that say the same on the command line; none for what cannot be said there."""
    if isinstance(value, Mapping):
        rows = {name: one if isinstance(one, list) else [one] for name, one in value.items()}
        if all(isinstance(x, int | float) for row in rows.values() for x in row):
            yield from (f"{name}={':'.join(map(repr, row))}" for name, row in rows.items())
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield repr(value)


def read_schema(path: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The declarations and the options of a schema file."""
    return ({}, {}) if path is None else load_study(Path(path), STUDY_KEYS)


def read_levels(levels: Sequence[Any], kind: str | None) -> list[Any]:
    """Levels in the type of a column: texts that spell numbers, or true and false, are these.

    Codes such as 01 spell no number, and whole numbers that no double can tell from others stay
    texts. In a file that states its types, levels of a column of strings (`kind`) remain texts.
    """
    spelled = [_spelled(level) for level in levels]
    kinds = {type(value) for value in spelled}
    is_typed = kinds == {bool} or (
        kinds <= {int, float} and max(map(abs, spelled), default=0) < 2**53
    )
    if kind == "string" or not is_typed or len({*spelled}) < len(levels):
        return [*levels]
    return spelled


def _spelled(level: Any) -> Any:
    """What a level spells in JSON, with true and false in any case; else the level itself."""
    try:
        return json.loads(str(level).lower())
    except ValueError:
        return level


def read_declarations(chosen: Any, types: Mapping[str, str | None] | None = None) -> dict[str, Any]:
    """Declarations as keywords for `dplr`, from the schema file and from options, which prevail.

    With the `types` of the columns of a table, levels are in these; a type may not be stated.

    Raises
    ------
    SchemaError
        If there is a table, and another column is declared.
    """
    schema = read_schema(chosen.schema)[0]
    declared = {**schema, **{name: {**schema.get(name, {})} for name in ("bounds", "levels")}}
    for here, there in (("bounds", "levels"), ("levels", "bounds")):
        for name, value in getattr(chosen, here):
            declared[there].pop(name, None)
            declared[here][name] = value
    declared |= given(chosen, "row_norm", "intercept_scale")
    declare_schema(**declared)
    if types is None:
        return declared
    for argument in ("bounds", "levels"):
        for name in declared[argument]:
            if name not in types:
                raise SchemaError(
                    f"{argument} names {name!r}, which is not a column of the table; it has "
                    f"{listed([*types])}{or_meant(name, types)}"
                )
    levels = declared["levels"].items()
    declared["levels"] = {name: read_levels(own, types[name]) for name, own in levels}
    return declared
