"""The options of all commands: how each is written, read and explained, and which take it."""

from __future__ import annotations

import argparse
import codecs
import csv
from collections.abc import Callable
from typing import Any, Never, get_args

from privatelr.cli.outcomes import WRONG, say
from privatelr.errors import nearest, or_meant
from privatelr.mechanisms.calibration import ANALYSES, LAMBDA_RULES
from privatelr.numerics import HINGES
from privatelr.results import PredictionType

_RULES = ", ".join(LAMBDA_RULES)


class _Paragraphs(argparse.HelpFormatter):
    """A formatter that fills paragraphs, except those with indented lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(p if "\n  " in p else fill(p, width, indent) for p in paragraphs)


class Parser(argparse.ArgumentParser):
    """A parser whose error messages are one line; its subparsers have the same class."""

    def __init__(self, **options: Any) -> None:
        fixed = {"formatter_class": _Paragraphs, "allow_abbrev": False}
        super().__init__(**{**options, **fixed})

    def error(self, message: str) -> Never:
        """Print the message as one line on standard error, and exit with the status 2."""
        say(self.prog.split()[0], f"{message.rstrip('.')} (see {self.prog} --help).")
        raise SystemExit(WRONG)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown words, and name the closest option."""
        found, unknown = super().parse_known_args(args, namespace)
        if not unknown:
            return found, unknown
        known = [option for action in self._actions for option in action.option_strings]
        option = next((word for word in unknown if word.startswith("-")), "").partition("=")[0]
        bare = {name.lstrip("-"): name for name in known}
        meant = nearest(option.lstrip("-"), bare)
        hint = "." if meant is None else f"; did you mean {bare[meant]!r}?"
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as refusal:
            refusal.message += or_meant(value, [*map(str, action.choices or ())])
            raise


def _reader(expected: str) -> Callable[[Callable[[str], Any]], Callable[[str], Any]]:
    """A decorator that turns the errors of a reader into errors for `argparse`."""

    def decorate(read: Callable[[str], Any]) -> Callable[[str], Any]:
        def checked(text: str) -> Any:
            try:
                return read(text)
            except (ValueError, LookupError, csv.Error):
                raise argparse.ArgumentTypeError(f"{text!r} is {expected}") from None

        return checked

    return decorate


number = _reader("not a number")(float)


@_reader("not a whole number from 0")
def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 40):
        raise ValueError
    return int(text)


@_reader(f"neither a number nor one of {_RULES}")
def _lambda(text: str) -> float | str:
    return text if text in LAMBDA_RULES else float(text)


@_reader("neither a number nor youden nor topleft")
def _threshold(text: str) -> float | str:
    return text if text in ("youden", "topleft") else float(text)


class _Once(argparse.Action):
    """An option whose parts belong together, of which a second one would undo the first."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        if getattr(namespace, self.dest) is not self.default:
            raise argparse.ArgumentError(self, "takes all shares at once, as in scale=.1,roc=.25")
        setattr(namespace, self.dest, values)


@_reader("neither inference nor of the form coefficients=0.6,inference=0.4")
def _spend(text: str) -> str | dict[str, float]:
    if text.strip() == "inference":
        return "inference"
    items = [item.partition("=") for item in text.split(",")]
    shares = {name.strip(): float(share) for name, _, share in items}
    if len(shares) < len(items):
        raise ValueError
    rest = 1 - sum(shares.values())
    if "coefficients" not in shares and 0 < rest < 1:  # what is left is for the coefficients
        return {"coefficients": rest, **shares}
    return shares


@_reader("not an encoding such as latin-1, cp1252 or utf-16")
def _encoding(text: str) -> str:
    "text".encode(text)  # codecs for anything other than text raise an error, too
    return codecs.lookup(text).name


@_reader("not a character such as ';', or tab")
def _separator(text: str) -> str:
    character = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(character) != 1 or character.isalnum() or character in "\"' .+-_\r\n\0":
        raise ValueError
    return character


@_reader("not of the form NAME=LO:HI, such as age=18:90")
def _bounds(text: str) -> tuple[str, tuple[float, float]]:
    name, equals, pair = text.rpartition("=")
    low, colon, high = pair.partition(":")
    if not (name.strip() and equals and colon):
        raise ValueError
    return name.strip(), (float(low), float(high))


@_reader("not a number, or of the form NAME=X, such as age=0.3")
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


@_reader("not of the form NAME=A,B, such as smoker=no,yes")
def _levels(text: str) -> tuple[str, list[str]]:
    name, equals, written = text.partition("=")
    if not (name.strip() and equals and written.strip()):
        raise ValueError
    levels = next(csv.reader([written], strict=True, skipinitialspace=True))
    return name.strip(), [level.strip() for level in levels]


TEXT = ("separator", "decimal", "encoding")
"""These options are about the format of a text file."""
_TEXT = "--separator --decimal --encoding"
_DECLARED = (
    "what is public about the table",
    "--schema --bounds --levels --row-norm --intercept-scale",
)
_SHORT_SCHEMA, _PRICE = "--schema --bounds --levels", "--eps|--rho --delta --seed"
_PROMISE = "--eps|--rho --delta --spend --do-scale"
_MODEL = (
    "what is fitted, and how",
    "--model --loss --h --lambda --output-perturbation --analysis",
)
_PROGRAM = (("", "file --released-only|--line --strict --seed --json"),)
_OPTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "demo": (("", "--json"),),
    "plan": (
        ("", "formula --n --weights --subset --by"),
        _DECLARED,
        ("what is promised", _PROMISE),
        _MODEL,
        ("what is guessed", "--balance --spread --c-index --correlation --pilot"),
        ("what is asked", "--width --term --share --plot --json"),
    ),
    "check": (("", f"data {_TEXT} formula --weights --subset --by"), _DECLARED),
    "fit": (
        ("", f"data {_TEXT} formula --weights --subset --by"),
        _DECLARED,
        ("what is promised", f"{_PROMISE} --person --records-per-person --seed"),
        (_MODEL[0], f"{_MODEL[1]} --prior"),
        ("", "--out --force --json"),
    ),
    "bounds": (
        ("", f"data {_TEXT}"),
        ("what is public about the table", _SHORT_SCHEMA),
        ("what is promised", _PRICE),
        ("", "--out --force --json"),
    ),
    "levels": (
        ("", f"data {_TEXT} column"),
        ("what is public about the table", _SHORT_SCHEMA),
        ("what is promised", _PRICE),
        ("", "--out --force --json"),
    ),
    "predict": (("", f"model data {_TEXT} --type --threshold --out --force --json"),),
    "card": (("", "model --format --out --force --json"),),
    "lrsimple": _PROGRAM,
    "svmsimple": _PROGRAM,
    "audit": (("", "--eps --full --mutations --json --plot"),),
}
"""Each command takes these arguments, under titles; options joined by ``|`` exclude each other."""
_SWITCHES = "--json --force --output-perturbation --released-only --strict --full --mutations"
_NUMBERS = (
    "--row-norm --intercept-scale --eps --rho --delta --h --balance --c-index --correlation "
    "--width --share"
)
_READ: dict[str, dict[str, Any]] = {
    **{name: {"action": "store_true"} for name in _SWITCHES.split()},
    **{name: {"metavar": "X", "type": number} for name in _NUMBERS.split()},
    **{name: {"metavar": "FILE"} for name in ("data", "file", "--pilot", "--plot", "--out")},
    "model": {"metavar": "MODEL"},
    "formula": {"metavar": "FORMULA"},
    "column": {"metavar": "COLUMN"},
    "--threshold": {"metavar": "X", "type": _threshold},
    "--n": {"metavar": "N", "type": number, "required": True},
    "--separator": {"metavar": "X", "type": _separator},
    "--decimal": {"metavar": "X", "choices": (".", ",")},
    "--encoding": {"metavar": "NAME", "type": _encoding},
    "--schema": {"metavar": "FILE.toml"},
    "--bounds": {"metavar": "NAME=LO:HI", "type": _bounds, "action": "append", "default": []},
    "--levels": {"metavar": "NAME=A,B", "type": _levels, "action": "append", "default": []},
    "--prior": {"metavar": "NAME=X[:SD]|FILE", "type": _prior, "action": "append", "default": []},
    "--spread": {"metavar": "X|NAME=X", "type": _spread, "action": "append", "default": []},
    "--spend": {"metavar": "SHARES", "type": _spend, "action": _Once},
    "plan --spend": {"metavar": "SHARES", "type": _spend, "action": _Once, "default": "inference"},
    "--do-scale": {"choices": ("private", "no")},
    "--seed": {"metavar": "N", "type": _seed},
    "--model": {"choices": ("logistic", "svm", "multinomial"), "default": "logistic"},
    "--loss": {"choices": HINGES},
    "--lambda": {"metavar": "X", "type": _lambda, "dest": "lambda_"},
    "--analysis": {"choices": ANALYSES},
    "--term": {"metavar": "NAME"},
    "--weights": {"metavar": "NAME"},
    "--subset": {"metavar": "CONDITION"},
    "--by": {"metavar": "NAME"},
    "--person": {"metavar": "NAME"},
    "--records-per-person": {"metavar": "N", "type": _seed},
    "--type": {"choices": get_args(PredictionType)},
    "--format": {"choices": ("markdown", "html"), "default": "markdown"},
    "--line": {"choices": ("output", "objective")},
    "audit --eps": {"type": number, "default": 1.0},
}
"""`argparse` gets these arguments for an option; a key for one command begins with its name."""
_FORMULA = 'R formula, such as "y ~ age + smoker"'
_SPEND = (
    "what the promise is spent on: inference adds standard errors, tests and intervals "
    "beside the coefficients, with the usual shares, coefficients=0.6,inference=0.4 sets "
    "the shares, and roc=0.25 a share for a ROC curve beside coefficients; default: "
)
_OUT = "{} to a file, and print nothing; an existing file is refused"
_HELP = {
    "model": "a file that fit has written",
    "data": "the table; - reads CSV from standard input",
    "file": "the file, or - for standard input",
    "formula": _FORMULA,
    "column": "the name of a column, whose levels are released",
    "plan formula": f"{_FORMULA}, or a number",
    "--separator": "between the cells of a text file: a character or tab; default comma, semicolon "
    "with --decimal , or tab in .tsv",
    "--decimal": "what the numbers of a text file have before their fraction; default point. A "
    "number with the other one counts as missing, and so does 1 234",
    "--encoding": "of a text file, such as latin-1, cp1252 or utf-16; default utf-8",
    "--n": "number of records",
    "--weights": "column of how much a record counts, over the largest weight by its bounds; or an "
    "expression such as 1/p",
    "--subset": "condition on declared columns, such as 'age > 50', of the records that count; the "
    "others are rows of zeros, and belong to n",
    "--by": "column with declared levels, each of which gets a fit; together they cost as one",
    "--person": "column that tells persons apart, all of whose records are protected together; "
    "their number is then public, and that of records is not",
    "--records-per-person": "a record counts one over this number, or over that of its person's "
    "records if they are more; default 1",
    "--schema": "bounds and levels in a file, to which the options add; it may also have weights, "
    "subset, by, person, records_per_person and a table of the prior",
    "--bounds": "limits of a numeric column, as in age=18:90; may be repeated",
    "--levels": "levels of a column of text, the reference first, as in smoker=no,yes; quoted as "
    "in CSV where a level has a comma; may be repeated",
    "--row-norm": "limit to the length of a row of covariates; with --do-scale private in lengths "
    "of a typical row",
    "--intercept-scale": "constant in the intercept column; default 0.5, and for scaled rows 1 if "
    "epsilon is pure, else 0.25, or 0.5 with inference",
    "--eps": "epsilon; default 1; 0 is the plain fit",
    "audit --eps": "epsilon of the claims, from 0.01 to 10; default 1",
    "bounds --eps": "epsilon of all columns together",
    "levels --eps": "epsilon of the levels",
    "bounds --bounds": "outer range of a numeric column, as in age=0:150, which may be far too "
    "wide; may be repeated",
    "levels --delta": "delta beside epsilon, far below 1/n; it cannot be 0",
    "--rho": "zero-concentrated privacy instead",
    "--delta": "delta beside epsilon, far below 1/n; default 0",
    "--spend": f"{_SPEND}the coefficients alone",
    "plan --spend": f"{_SPEND}inference",
    "--do-scale": "whether rows are centred and scaled by means and second moments that are "
    "released first, for a tenth of the promise; by default where their noise is small",
    "--seed": "repeat the noise of this whole number; for tests: the output is then not private",
    **dict.fromkeys(
        ("bounds --seed", "levels --seed"), "repeats the choices, for tests; voids the guarantee"
    ),
    "fit --seed": "repeats the noise, for tests; voids the guarantee",
    "--model": "default: logistic; multinomial for three or more classes",
    "--loss": "hinge of the svm; default softplus",
    "--h": "bend of the hinge; default 0.5",
    "--lambda": f"penalty: a number, or a rule, one of {_RULES}; default auto",
    "--output-perturbation": "add the noise to the result; by default it is added to the objective",
    "--analysis": "default: the tightest proven bound",
    "--balance": "share of the positive class; default 0.3",
    "--prior": "coefficient to which the penalty draws, as in age=0.03, or age=0.03:0.01 with a "
    "standard deviation, which may be repeated; or a file that fit has written, with the "
    "coefficients of an earlier model",
    "--spread": "standard deviation of a numeric column over half the width of its bounds, or of "
    "one column, as in age=0.3, which may be repeated; by default less where bounds are wide",
    "--c-index": "C-index of the true probabilities; default 0.75",
    "--correlation": "correlation of two numeric columns; default 0.5",
    "--pilot": "public table in place of guesses, CSV or Parquet",
    "--width": "length of an interval, for which n and epsilon are looked for",
    "--term": "its coefficient; by default all but the intercept",
    "--share": "share of studies that reach the width; default 0.5",
    "--plot": "draw widths against epsilon: .png, .svg or .pdf",
    "audit --plot": "also draw the table: .png, .svg or .pdf",
    "--type": "default: probabilities, or the classes of an svm, which has no probabilities; "
    "response, class and prob are R's names",
    "--threshold": "split classes here: a probability, a margin of an svm, or youden or topleft if "
    "the model bought roc",
    "--format": "default: markdown",
    **dict.fromkeys(
        ("bounds --out", "levels --out"),
        "also write the schema to a file; an existing file is refused",
    ),
    "fit --out": "write the model to a file; an existing file is refused",
    "predict --out": _OUT.format("write the predictions"),
    "card --out": _OUT.format("write the card"),
    "--force": "let --out replace an existing file",
    "--released-only": "print the two private lines only, and not the plain fit, which is not "
    "private",
    "--line": "print this private line only, at the price of eps",
    "--strict": "refuse rows longer than 1 + 1e-6 instead of shortening them",
    "--full": "search longer and sample 20 times: five to ten minutes per loss",
    "--mutations": "plant bugs in the package and print which part of the audit catches each: one "
    "to three minutes; the exit status is 1 if one is not caught",
    "demo --json": "print the model file, not the summary",
    "plan --json": "print JSON in place of the page",
    "fit --json": "print the model file, not the page",
    **dict.fromkeys(("bounds --json", "levels --json"), "print JSON in place of the schema"),
    "predict --json": "write JSON: the name of the prediction and a list",
    "card --json": "print the card as one JSON text",
    "audit --json": "print JSON in place of the table",
    "--json": "print the lines and the public facts as JSON",
}


def add_options(parser: Parser, command: str) -> None:
    """Add the arguments of a command to its parser."""
    for title, names in _OPTIONS[command]:
        group = parser.add_argument_group(title) if title else parser
        for rivals in names.split():
            place = group.add_mutually_exclusive_group() if "|" in rivals else group
            for name in rivals.split("|"):
                own = f"{command} {name}"
                how, told = _READ.get(own, _READ[name]), _HELP.get(own) or _HELP[name]
                place.add_argument(name, help=told, **how)


def around_options(text: str) -> dict[str, Any]:
    """Split a help text at its two blank lines, where `argparse` lists the options."""
    description, _, epilog = text.partition("\n\n\n")
    return {"description": description, "epilog": epilog}


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    line: str,
    text: str,
) -> None:
    """Add a subcommand that calls `run`; `line` is for the list of commands, `text` its help."""
    parser = commands.add_parser(name, help=line, **around_options(text))
    add_options(parser, name)
    parser.set_defaults(run=run, parser=parser)


def given(chosen: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Options that have a value, from the command line or by default, as keywords."""
    found = {name: getattr(chosen, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}
