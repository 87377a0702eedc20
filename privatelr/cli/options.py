"""The options of all commands: how each is written, read and explained, and which take it.

A key of a schema file is the name of an option without its dashes; see `privatelr.cli.study_file`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, get_args

from privatelr.cli import ledger_options
from privatelr.cli import option_readers as read
from privatelr.cli.option_readers import Parser
from privatelr.mechanisms.calibration import ANALYSES
from privatelr.mechanisms.candidate_choice import ScoreName
from privatelr.numerics import HINGES
from privatelr.results import PredictionType

METHODS = ("lr", "svm", "lp", "simplex", "multinomial")
"""What ``--method`` takes: `dplr`, `dpsvm`, `dplpsvm`, `dpsimplex` and `dpmultinom`."""
TEXT = ("separator", "decimal", "encoding")
"""These options are about the format of a text file."""
_SEVERAL = ("check", "fit", "predict", "schema init")
_TEXT = "--separator --decimal --encoding"
_DECLARED = (
    "what is public about the table",
    "--schema --bounds --levels --row-norm --intercept-scale",
)
_SHORT_SCHEMA, _PRICE = "--schema --bounds --levels", "--eps|--rho --delta --seed"
_PROMISE = "--eps|--rho --delta --spend --do-scale"
_MODEL = (
    "what is fitted, and how",
    "--method|--model --loss --h --lambda --output-perturbation --analysis --prior",
)
_CHOOSING = "--density --rounds --step --score --slack --minority --radius --draws"
_ALWAYS = "--json --quiet"
_WRITTEN = ("", f"--out --force {_ALWAYS}")
_SAVED = ("", f"--out --save --force {_ALWAYS}")
_PAID = (
    ("what is public about the table", _SHORT_SCHEMA),
    ("what is promised", _PRICE),
    ledger_options.PAYING,
    _WRITTEN,
)
_PROGRAM = (
    ("", f"file --released-only|--line --strict --seed {_ALWAYS}"),
    ledger_options.PAYING,
)
_OPTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "demo": (("", _ALWAYS),),
    "plan": (
        ("", "formula --n --weights --subset --by --person --records-per-person"),
        _DECLARED,
        ("what is promised", _PROMISE),
        _MODEL,
        ("what is guessed", "--balance --spread --c-index --correlation --pilot"),
        ("what is asked", f"--width --term --share --plot {_ALWAYS}"),
    ),
    "check": (
        ("", f"data {_TEXT} formula --weights --subset --by --person --records-per-person"),
        _DECLARED,
        ("", _ALWAYS),
    ),
    "fit": (
        ("", f"data {_TEXT} formula --weights --subset --by"),
        _DECLARED,
        ("what is promised", f"{_PROMISE} --person --records-per-person --seed"),
        (_MODEL[0], f"{_MODEL[1]} --on-small-lambda --rp-dim --threshold"),
        ("how --method lp and simplex choose columns", _CHOOSING),
        *_PAID[2:],
    ),
    "schema init": (("", f"data {_TEXT}"), _WRITTEN),
    "bounds": (
        *(("", f"data {_TEXT}"), _PAID[0]),
        ("what is promised", "--eps|--rho --delta --person --seed"),
        *(_PAID[2], _SAVED),
    ),
    "levels": (
        *(("", f"data {_TEXT} column"), _PAID[0]),
        ("what is promised", "--eps --delta --person --seed"),
        *(_PAID[2], _SAVED),
    ),
    "predict": (("", f"model data {_TEXT} --type --threshold --out --force {_ALWAYS}"),),
    "card": (("", f"model --format --out --force {_ALWAYS}"),),
    "roc": (
        ("", f"model data {_TEXT}"),
        *_PAID[1:3],
        ("", f"--plot --out --force {_ALWAYS}"),
    ),
    "choose": (("", f"models data {_TEXT} --score"), *_PAID[1:]),
    "compare": (
        (
            "",
            f"models --format --statistic --level --exponentiate --digits --out --force {_ALWAYS}",
        ),
    ),
    "lrsimple": _PROGRAM,
    "svmsimple": _PROGRAM,
    "audit": (("", f"--eps --full --plot {_ALWAYS}"),),
    **ledger_options.COMMANDS,
}
"""Each command takes these arguments, under titles; options joined by ``|`` exclude each other."""
_SWITCHES = "--json --quiet --force --released-only --strict --full --exponentiate"
_NUMBERS = (
    "--row-norm --intercept-scale --eps --rho --delta --h --n --balance --c-index --correlation "
    "--width --share --density --slack --minority --radius --level"
)
_READ: dict[str, dict[str, Any]] = {
    **{name: {"action": "store_true"} for name in _SWITCHES.split()},
    **{name: {"metavar": "X", "type": read.number} for name in _NUMBERS.split()},
    **{
        name: {"metavar": "FILE"}
        for name in ("data", "file", "--pilot", "--plot", "--out", "--save")
    },
    **{f"{name} data": {"metavar": "FILE", "nargs": "+"} for name in _SEVERAL},
    "roc data": {"metavar": "FILE", "nargs": "*"},
    "model": {"metavar": "MODEL"},
    "models": {"metavar": "MODEL", "nargs": "+"},
    "formula": {"metavar": "FORMULA", "nargs": "?"},
    "column": {"metavar": "COLUMN"},
    "--threshold": {"metavar": "X", "type": read.threshold},
    "fit --threshold": {"metavar": "X", "type": read.fitted_threshold},
    "--separator": {"metavar": "X", "type": read.separator},
    "--decimal": {"metavar": "X", "choices": (".", ",")},
    "--encoding": {"metavar": "NAME", "type": read.encoding},
    "--schema": {"metavar": "FILE.toml"},
    "--bounds": {"metavar": "NAME=LO:HI", "type": read.bounds, "action": "append", "default": []},
    "--levels": {"metavar": "NAME=A,B", "type": read.levels, "action": "append", "default": []},
    "--prior": {
        "metavar": "NAME=X[:SD]|FILE",
        "type": read.prior,
        "action": "append",
        "default": [],
    },
    "--spread": {"metavar": "X|NAME=X", "type": read.spread, "action": "append", "default": []},
    "--spend": {"metavar": "SHARES", "type": read.spend, "action": read.Once},
    "--do-scale": {"choices": ("private", "no")},
    "--seed": {"metavar": "N", "type": read.whole},
    "--method": {"choices": METHODS},
    "plan --method": {"choices": ("lr", "svm", "multinomial")},
    "--model": {"choices": ("logistic", "svm"), "dest": "method"},
    "--loss": {"choices": (*HINGES, "logistic")},
    "--lambda": {"metavar": "X", "type": read.lambda_, "dest": "lambda_"},
    "--output-perturbation": {"action": argparse.BooleanOptionalAction},
    "--analysis": {"choices": ANALYSES},
    "--on-small-lambda": {"choices": ("increase", "keep")},
    "--rp-dim": {"metavar": "K", "type": read.integer},
    **{name: {"metavar": "N", "type": read.automatic} for name in ("--rounds", "--draws")},
    "--step": {"metavar": "X", "type": read.automatic},
    "--score": {"choices": ("margin", "count")},
    "choose --score": {"choices": get_args(ScoreName)},
    "--term": {"metavar": "NAME"},
    "--weights": {"metavar": "NAME"},
    "--subset": {"metavar": "CONDITION"},
    "--by": {"metavar": "NAME"},
    "--person": {"metavar": "NAME"},
    "--records-per-person": {"metavar": "N", "type": read.whole},
    "--type": {"choices": get_args(PredictionType)},
    "--format": {"choices": ("markdown", "html"), "default": "markdown"},
    "compare --format": {"choices": ("text", "html"), "default": "text"},
    "--statistic": {"choices": ("std_error", "conf_int")},
    "--digits": {"metavar": "N", "type": read.whole},
    "--line": {"choices": ("output", "objective")},
    "audit --eps": {"type": read.number, "default": 1.0},
    **ledger_options.READ,
}
"""`argparse` gets these arguments for an option; a key for one command begins with its name."""
_FORMULA = 'R formula, such as "y ~ age + smoker"'
_SPEND = (
    "what the promise is spent on: inference adds standard errors, tests and intervals "
    "beside the coefficients, with the usual shares, coefficients=0.6,inference=0.4 sets "
    "the shares, and roc=0.25 a share for a ROC curve beside coefficients; default: "
)
_OUT = "{} to a file, and print nothing; an existing file is refused"
_DATA = "the table, in one file or several; - reads CSV from standard input"
_HELP = {
    "model": "a file that fit has written",
    "data": "the table; - reads CSV from standard input",
    **{f"{name} data": _DATA for name in _SEVERAL},
    "file": "the file, or - for standard input",
    "formula": _FORMULA,
    "column": "the name of a column, whose levels are released",
    "plan formula": f"{_FORMULA}, or a number",
    "models": "files that fit has written, one or more",
    "roc data": f"{_DATA}. Without one, the curve that fit has bought is shown",
    "--separator": "between the cells of a text file: a character or tab; default comma, semicolon "
    "with --decimal , or tab in .tsv",
    "--decimal": "what the numbers of a text file have before their fraction; default point. A "
    "number with the other one counts as missing, and so does 1 234",
    "--encoding": "of a text file, such as latin-1, cp1252 or utf-16; default utf-8",
    "--n": "number of records, or of persons",
    "--weights": "column of how much a record counts, over the largest weight by its bounds; or an "
    "expression such as 1/p",
    "--subset": "condition on declared columns, such as 'age > 50', of the records that count; the "
    "others are rows of zeros, and belong to n",
    "--by": "column with declared levels, each of which gets a fit; together they cost as one",
    "--person": "column that tells persons apart, all of whose records are protected together; "
    "their number is then public, and that of records is not",
    "bounds --person": "column that tells persons apart, all of whose records are protected "
    "together; each counts one over their number",
    "levels --person": "column that tells persons apart, all of whose records are protected "
    "together; each person counts for one level",
    "--records-per-person": "a record counts one over this number, or over that of its person's "
    "records if they are more; default 1",
    "--schema": "a TOML file with bounds, levels, and other options as keys; the command line "
    "overrides it",
    "--bounds": "limits of a numeric column, as in age=18:90; may be repeated",
    "--levels": "levels of a column of text, the reference first, as in smoker=no,yes; quoted as "
    "in CSV where a level has a comma; may be repeated",
    "--row-norm": "limit to the length of a row of covariates; with --do-scale private in lengths "
    "of a typical row",
    "--intercept-scale": "constant in the intercept column; default 0.5, and for scaled rows 1 if "
    "epsilon is pure, else 0.25, or 0.5 with inference",
    "roc model": "a file that fit has written; or one of roc or choose, which is shown again",
    "choose models": "files that fit has written, two or more, of one response",
    "choose data": "the table with the response, best set apart beforehand; - reads CSV from "
    "standard input",
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
        ("bounds --seed", "levels --seed", "choose --seed"),
        "repeats the choices, for tests; voids the guarantee",
    ),
    **dict.fromkeys(
        ("fit --seed", "roc --seed"), "repeats the noise, for tests; voids the guarantee"
    ),
    "--method": "lr is logistic regression, the default; svm a support vector machine; lp and "
    "simplex choose few columns of many; multinomial is for three or more classes",
    "plan --method": "lr is logistic regression, the default; svm a support vector machine; "
    "multinomial is for three or more classes, and buys no inference",
    "--model": "older spelling of --method; logistic is lr",
    "--loss": "hinge of the svm, by default softplus; simplex takes huber, its default, or "
    "logistic",
    "--h": "bend of the hinge; default 0.5",
    "--lambda": f"penalty: a number, or a rule, one of {read.RULES}; default auto",
    "--output-perturbation": "add the noise to the result; by default it is added to the objective",
    "--analysis": "default: the tightest proven bound",
    "--on-small-lambda": "what becomes of a penalty that costs privacy; default: it is increased",
    "--rp-dim": "number of random directions that covariates are projected to; default 0, for none",
    "fit --threshold": "of classes: fixed, the default, is 0.5, or a margin of 0; or a number; or "
    "youden or topleft, which predict takes from the curve that --spend roc=X buys",
    "--density": "share of the records, those of the smallest margins, whose margins count",
    "--rounds": "how many columns lp chooses; default auto",
    "--step": "how fast the weights of records fall; default auto",
    "--score": "what a round compares; default margin",
    "choose --score": "what is compared: the area under the curve, the share of right classes, or "
    "the squared error of probabilities; default auc",
    "choose --eps": "epsilon of the choice, beside that of the models; it has no default",
    "choose --out": "also write the choice, with all models, to a file; an existing file is "
    "refused",
    "--slack": "for --score count, from 0 to below 1",
    "--minority": "public share of the smaller class",
    "--radius": "sum of the sizes of the coefficients; default 1",
    "--draws": "how many columns simplex draws; default auto",
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
    "compare --format": "default: text",
    "--statistic": "what stands below an estimate; default std_error",
    "--level": "confidence of intervals; default 0.95",
    "--exponentiate": "odds ratios in place of coefficients",
    "--digits": "number of decimals; by default each term has at least three digits",
    "roc --eps": "epsilon of the answer, beside that of the model; it has no default",
    "roc --plot": "also draw the curve: .png, .svg or .pdf",
    "roc --out": "also write the answer to a file, for card, ledger check and load; an existing "
    "file is refused",
    **dict.fromkeys(
        ("bounds --out", "levels --out"),
        "also write the schema to a file; an existing file is refused",
    ),
    "fit --out": "write the model to a file; an existing file is refused",
    "predict --out": _OUT.format("write the predictions"),
    "card --out": _OUT.format("write the card"),
    "compare --out": _OUT.format("write the table"),
    "schema init --out": _OUT.format("write the template"),
    "--save": "also write the answer to a file, with its guarantee, for card, ledger check and "
    "load; an existing file is refused",
    **dict.fromkeys(
        ("bounds --force", "levels --force"), "let --out and --save replace existing files"
    ),
    "--force": "let --out replace an existing file",
    "--released-only": "print the two private lines only, and not the plain fit, which is not "
    "private",
    "--line": "print this private line only, at the price of eps",
    "--strict": "refuse rows longer than 1 + 1e-6 instead of shortening them",
    "--full": "search longer and sample 20 times: five to ten minutes per loss",
    "demo --json": "print the model file, not the summary",
    "plan --json": "print JSON in place of the page",
    "fit --json": "print the model file, not the page",
    **dict.fromkeys(("bounds --json", "levels --json"), "print JSON in place of the schema"),
    "predict --json": "write JSON: the name of the prediction and a list",
    "card --json": "print the card as one JSON text",
    "audit --json": "print JSON in place of the table",
    **dict.fromkeys(
        ("roc --json", "choose --json", "check --json"), "print JSON in place of the page"
    ),
    "compare --json": "print the numbers, facts and notes as JSON",
    "schema init --json": "print the names and types as JSON in place of the template",
    "--quiet": "print nothing on standard error but errors",
    "check --quiet": "print nothing beside the page but errors",
    "--json": "print the lines and the public facts as JSON",
    **ledger_options.HELP,
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


def names_of(one: str) -> frozenset[str]:
    """All arguments of the commands that take this one."""
    found = []
    for groups in _OPTIONS.values():
        names = [name for _, row in groups for name in row.replace("|", " ").split()]
        found += names if one in names else []
    return frozenset(found)


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
    """Add a subcommand that calls `run`; `line` is for the list of commands, `text` its help.

    The name of a command within another one begins with that of the other one.
    """
    parser = commands.add_parser(name.split()[-1], help=line, **around_options(text))
    add_options(parser, name)
    parser.set_defaults(run=run, parser=parser)


def add_group(
    commands: argparse._SubParsersAction[Parser], name: str, line: str, text: str
) -> argparse._SubParsersAction[Parser]:
    """Add a subcommand that has subcommands itself, and return these."""
    parser = commands.add_parser(name, help=line, **around_options(text))
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def given(chosen: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Options that have a value, from the command line or by default, as keywords."""
    found = {name: getattr(chosen, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}
