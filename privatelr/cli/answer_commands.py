"""The commands ``schema init``, ``bounds``, ``levels``, ``roc``, ``choose`` and ``compare``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from privatelr.cli import files
from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.model_commands import require_data, require_one_price, seed_said
from privatelr.cli.options import (
    Declared,
    LedgerOptions,
    Person,
    PriceOptions,
    Seed,
    TextFormat,
    Written,
    given,
    read_declarations,
    read_schema,
    together,
)
from privatelr.cli.outcomes import (
    DONE,
    InputError,
    OutputError,
    as_json,
    in_shell,
    note,
)
from privatelr.cli.tables import Reading, open_table, read_columns, reading_of_variable
from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.formula import is_unnamed
from privatelr.mechanisms import read_target
from privatelr.mechanisms.candidate_choice import ScoreName
from privatelr.planning import suggestions
from privatelr.plot_style import require_plot
from privatelr.privacy import ZCDP, Guarantee, neighbours_about, to_json
from privatelr.privacy.accounting import NAMED
from privatelr.results import declarations
from privatelr.results.answers import chosen_fit
from privatelr.results.pages import comparison
from privatelr.results.release_files import hash_in, load_with_hash

_TEMPLATE = """\
# A study of {shown}. The names were read from the file, and no value of it was.
# A line counts once its # is taken away. Declare what is known without the table.

# formula = "RESPONSE ~ FIRST + SECOND"
# eps = 1.0
# spend = "inference"
# ledger = "FILE.ledger"  # the account that is charged; `privatelr ledger create` makes one

[bounds]
# numbers: the smallest and the largest value that is possible
{bounds}

[levels]
# texts: all of them, the reference first
{levels}
"""
_TEXT_TYPE = re.compile("string|binary|bool")
"""Arrow's names of types that take levels."""


# -- declarations --------------------------------------------------------------------------------


def init(*data: str, text: TextFormat = TextFormat(), written: Written = Written()) -> int:
    """Write a template of a schema file: the names of the columns, and no value.

    It has the types of the columns where the file states them, as Parquet and Feather do. Nothing
    is read below the names of a CSV, nothing is charged, and the template may be shown to anybody
    who may know the names.

    Every line of it is a comment. Take the # away from what is known of a column without the
    table: limits of a number, or the levels of a text, the reference first. The options of fit,
    such as formula and eps, stand above the columns.

    For example:
      privatelr schema init data.csv --out study.toml
      privatelr fit data.csv --schema study.toml --out model.json

    Parameters
    ----------
    data
        The table, in one file or several; - reads CSV from standard input.
    """
    require_data(data)
    files.require_place(written.out, written.force)
    with open_table(data, **vars(text)) as table:
        types = {name: kind for name, kind in table.types.items() if not is_unnamed(name)}
    if written.json:
        columns = [{"name": name, "type": kind} for name, kind in types.items()]
        page = as_json({"columns": columns})
    else:
        page = _template(table.shown, types)
    files.deliver(page, written)
    return DONE


def _template(shown: str, types: Mapping[str, str | None]) -> str:
    """A schema file whose lines are comments; a column of no stated type has two of them."""
    lines: dict[str, list[str]] = {"bounds": [], "levels": []}
    for name, kind in types.items():
        told = "" if kind is None else f"  # {_printable(kind)}"
        key, is_text = declarations.key_of(name), bool(kind and _TEXT_TYPE.search(kind))
        if not is_text:
            lines["bounds"].append(f"# {key} = [LOWEST, HIGHEST]{told}")
        if kind is None or is_text:
            lines["levels"].append(f'# {key} = ["REFERENCE", "OTHER"]{told}')
    tables = {title: "\n".join(them) or "# none" for title, them in lines.items()}
    return _TEMPLATE.format(shown=_printable(shown), **tables)


def bounds(
    *data: str,
    text: TextFormat = TextFormat(),
    declared: Declared = Declared(),
    price: PriceOptions = PriceOptions(),
    person: Person = None,
    seed: Seed = None,
    charge: LedgerOptions = LedgerOptions(),
    written: Written = Written(),
    save: str | None = None,
) -> int:
    r"""Suggest bounds by private quantiles within outer ranges, and print them as a schema file.

    Every column that has --bounds, or bounds in the file of --schema, gets a range of its own:
    nearly all values lie inside it, and some records are meant to lie beyond either end. The price
    is divided among both ends of all columns, and the price of a fit is added to it. A column of
    text, by the types that Parquet and Feather state, is refused before it is paid for; a CSV
    states none, and words in it count as missing.

    What is printed is a schema file, with the price as a comment: the options and the file of
    --schema, and what was released. So commands can follow each other.

    For example:
      privatelr bounds data.csv --bounds age=0:150 --bounds income=0:1e7 --eps 0.2 \
          --out suggested.toml
      privatelr fit data.csv "y ~ age + income" --schema suggested.toml --eps 0.8

    Parameters
    ----------
    data
        The table, in one file or several; - reads CSV from standard input.
    person
        Column that tells persons apart. All records of a person are protected together, and each
        counts one over their number.
    seed
        Repeat the noise of this number, for tests. It voids the guarantee.
    save
        Write the answer itself to a file, with its guarantee, for card, ledger check and load.
    """
    require_data(data)
    target = _target(price, neighbours_about(person))
    paid = {"seed": seed, "person": person, **ledger_of(charge)}
    _require_both(written, save)  # before a budget is spent
    with open_table(data, **vars(text)) as table:
        known = read_declarations(declared, table.types)
        wanted: dict[str, Reading] = dict.fromkeys(known["bounds"], "numbers")
        if not wanted:
            raise ArgumentError("--bounds: takes an outer range for each column, as age=0:150.")
        frame = read_columns(table, wanted, person)
    with seed_said(seed):
        released = suggestions.suggest_bounds(frame, known["bounds"], target, **paid)
    _say_uncharged(charge)
    known["bounds"] = dict(released)
    _deliver(released, {**read_schema(declared.schema)[1], **known}, written, save)
    return DONE


def levels(
    *data: str,
    text: TextFormat = TextFormat(),
    declared: Declared = Declared(),
    price: PriceOptions = PriceOptions(),
    person: Person = None,
    seed: Seed = None,
    charge: LedgerOptions = LedgerOptions(),
    written: Written = Written(),
    save: str | None = None,
) -> int:
    r"""Release the levels of a column that enough records have, and print them as a schema file.

    A rare level stays untold; in a fit its records count as rows of zeros. The first level in the
    file is the reference. A delta is needed.

    What is printed is a schema file, with the price as a comment: the options and the file of
    --schema, and what was released. So commands can follow each other.

    For example:
      privatelr levels data.csv job --eps 0.1 --delta 1e-8 --schema suggested.toml \
          --out declared.toml

    Parameters
    ----------
    data
        The table, in one file or several, and the name of a column; - reads CSV from standard
        input.
    person
        Column that tells persons apart. All records of a person are protected together, and each
        person counts for one level.
    seed
        Repeat the noise of this number, for tests. It voids the guarantee.
    save
        Write the answer itself to a file, with its guarantee, for card, ledger check and load.
    """
    if len(data) < 2:
        raise ArgumentError("DATA and the name of a column are needed.")
    *paths, name = data
    target = _target(price, neighbours_about(person))
    paid = {"seed": seed, "person": person, **ledger_of(charge)}
    _require_both(written, save)
    with open_table(paths, **vars(text)) as table:
        known = read_declarations(declared, table.types)
        if name in known["bounds"]:
            raise ArgumentError(f"{name!r} has bounds, and a column takes bounds or levels.")
        frame = read_columns(table, {name: "text"}, person)
    with seed_said(seed):
        released = suggestions.levels_from(frame, name, target, **paid)
    known["levels"] |= released
    _say_uncharged(charge)
    _deliver(released, {**read_schema(declared.schema)[1], **known}, written, save)
    return DONE


def _target(price: PriceOptions, about: Any) -> Guarantee:
    """The price of an answer, which is checked before the table is read."""
    require_one_price(price)
    if price.eps is None and price.rho is None:
        raise ArgumentError("--eps: a price is needed, such as --eps 0.2.")
    try:
        asked = price.eps if price.rho is None else ZCDP(price.rho, about)
        return read_target(asked, price.delta or 0.0, plain=None, neighbours=about)
    except GuaranteeError as error:
        raise InputError(str(error)) from None


def _say_uncharged(charge: LedgerOptions) -> None:
    """Say so if no ledger was charged, because the study may have one."""
    if charge.ledger is None and not os.environ.get(NAMED):
        note("privatelr", "no ledger was charged; --ledger LEDGER charges one.")


def _require_both(written: Written, save: str | None) -> None:
    """Refuse the file of the schema or that of the answer, before a budget is spent."""
    if save is not None and save == written.out:
        raise ArgumentError("--save and --out name one file; they take a file each.")
    files.require_place(written.out, written.force)
    files.require_place(save, written.force, "--save")


def _deliver(
    released: declarations.SuggestedBounds | declarations.ReleasedLevels,
    study: dict[str, Any],
    written: Written,
    save: str | None,
) -> None:
    """Write and print the schema; it is paid for, so it is printed even if it cannot be written."""
    lines = (f"# {_printable(line)}".rstrip() for line in str(released).splitlines())
    schema = "\n".join([*lines, declarations.schema_text(**study)])
    page, entry = schema.removesuffix("\n"), released.entry
    if written.json:
        shown = {**study, "guarantee": to_json(released.guarantee)}
        page = as_json(shown)
    try:
        if save is not None:
            data = files.content_of(released)
            files.write(save, data, written.force, "--save")
            files.tell(entry, hash_in(data))
            entry = None  # it was told
    finally:
        files.deliver_paid(
            page,
            schema.encode,
            written,
            entry,
            prints_file=not written.json,
            hash_of=lambda data: sha256(data).hexdigest(),
        )


def _printable(line: str) -> str:
    """Return a line that TOML takes as a comment; names in a Parquet file may be any text."""
    return "".join(character if character.isprintable() else "?" for character in line)


# -- answers about models ------------------------------------------------------------------------


def roc(
    model: str,
    *data: str,
    text: TextFormat = TextFormat(),
    price: PriceOptions = PriceOptions(),
    seed: Seed = None,
    charge: LedgerOptions = LedgerOptions(),
    plot: str | None = None,
    written: Written = Written(),
) -> int:
    """Release how well a saved model tells the classes of a table apart.

    The answer is a ROC curve, its area, thresholds and calibration, from noisy counts of scores.
    The price is for the records of the table, and is added to that of the model if it was fitted
    to them.

    The table needs the columns of the model and its response; it is read as the table of the model
    was. Without a table, the curve is shown that the model has bought with --spend roc=X, or an
    answer that --out has written; this costs nothing.

    For example:
      privatelr roc model.json new.csv --eps 0.2
      privatelr roc model.json data.csv --rho 0.02 --plot roc.png --out roc.json

    Parameters
    ----------
    model
        A file that fit has written, or an answer of roc or choose, which is shown again.
    data
        The table, in one file or several; - reads CSV from standard input.
    seed
        Repeat the noise of this number, for tests. It voids the guarantee.
    plot
        Draw the curve: .png, .svg or .pdf.
    """
    if plot is not None and Path(require_plot(plot)).exists():
        raise OutputError(f"--plot {plot!r}: the file exists, and roc replaces none.")
    if not data:
        asked = together(price, charge, seed=seed, out=written.out)
        for option in given(asked, *vars(asked)):
            raise ArgumentError(f"--{option}: it takes a table whose records are scored.")
        saved, _ = load_with_hash(model)
        if hasattr(saved, "declared"):
            raise ArgumentError(f"{model!r} declares columns: roc takes what is about a model.")
        answer = saved if hasattr(saved, "page") else _one_fit(model, "roc").roc
        if plot is not None and not hasattr(answer, "plot"):
            raise ArgumentError(f"--plot: it draws a curve, and {model!r} has none.")
        return _show(answer, written, plot)
    files.require_place(written.out, written.force)  # before a budget is spent
    fitted = _one_fit(model, "roc")
    target = _target(price, neighbours_about(fitted.spec.formula.person))
    paid = ledger_of(charge)
    frame = _scored(data, text, {model: fitted})
    with seed_said(seed):
        answer = fitted.private_roc(frame, target, seed=seed, **paid)
    _say_uncharged(charge)
    return _show(answer, written, plot)


def choose(
    *data: str,
    text: TextFormat = TextFormat(),
    score: ScoreName = "auc",
    price: PriceOptions = PriceOptions(),
    seed: Seed = None,
    charge: LedgerOptions = LedgerOptions(),
    written: Written = Written(),
) -> int:
    """Choose one of several saved models privately, by how well each predicts a table.

    The price is for the choice. Together with all models it is a promise for every record; scores
    are not told.

    For example:
      privatelr choose small.json full.json test.csv --eps 0.2
      privatelr choose small.json full.json test.csv --eps 0.2 --score brier --out chosen.json
      privatelr predict chosen.json new.csv

    Parameters
    ----------
    data
        Two or more files that fit has written, of one response, and the table with the response,
        best set apart beforehand; - reads CSV from standard input.
    score
        What is compared: the area under the curve, the share of right classes, or the squared
        error of probabilities; default auc.
    seed
        Repeat the noise of this number, for tests. It voids the guarantee.
    """
    if len(data) < 2:
        raise ArgumentError("MODELS and DATA are needed: two or more models, and a table.")
    *paths, table = data
    files.require_place(written.out, written.force)
    labels = _labels(paths)
    if len({*labels}) < len(labels):
        raise ArgumentError("MODELS: a model is named twice.")
    fits = {label: _one_fit(path, "choose") for label, path in zip(labels, paths, strict=True)}
    target = _target(price, neighbours_about(fits[labels[0]].spec.formula.person))
    paid = {"seed": seed, **ledger_of(charge)}
    frame = _scored([table], text, fits)
    with seed_said(seed):
        answer = chosen_fit.choose(fits, frame, target, score=score, **paid)
    _say_uncharged(charge)
    return _show(answer, written)


def _scored(paths: Sequence[str], text: TextFormat, fits: Mapping[str, Any]) -> Any:
    """The columns of a table that models read, as each was declared."""
    wanted: dict[str, Reading] = {}
    person = None
    with open_table(paths, **vars(text)) as table:
        for label, fit in fits.items():
            variables, formula = fit.spec.variables, fit.spec.formula
            for name in formula.scored:
                if name not in table.names:
                    continue
                reading = reading_of_variable(variables[name])
                if wanted.setdefault(name, reading) != reading:
                    raise ArgumentError(
                        f"{label!r} reads the column {name!r} in another way than the models "
                        "before it."
                    )
            if formula.person is not None and formula.person.column in table.names:
                person = formula.person.column
        return read_columns(table, wanted, person)


def _labels(paths: Sequence[str]) -> list[str]:
    """The names of models: those of their files where these differ, or else their paths."""
    names = [Path(path).stem for path in paths]
    pairs = zip(paths, names, strict=True)
    return [name if names.count(name) == 1 else path for path, name in pairs]


def _one_fit(path: str, command: str) -> Any:
    model, _ = files.read_model(path)
    if hasattr(model, "fits"):
        takes = "fits that are not strata" if command == "choose" else "one fit"
        raise ArgumentError(
            f"{path!r} has a fit for each level of {model.by}: {command} takes {takes}."
        )
    return model


def _show(answer: Any, written: Written, plot: str | None = None) -> int:
    """Write, print and draw an answer, which is paid for, so that one failure stops no other."""
    page = in_shell(answer)
    if written.json and hasattr(answer, "curve"):
        curve = answer.curve.to_dict(orient="list")
        numbers = {"numbers": answer.tidy().to_dict(orient="records"), "curve": curve}
        numbers |= answer.to_dict()
        page = as_json(numbers)
    elif written.json:
        page = files.content_of(answer).decode().removesuffix("\n")
    try:
        files.deliver_paid(page, partial(files.content_of, answer), written, answer.entry)
    finally:
        if plot is not None:
            files.save_picture(answer.plot, plot, (5.0, 5.0))
    return DONE


def compare(*models: str, written: Written = Written()) -> int:
    """Show saved models side by side.

    The table has estimates with their errors, facts of each model, and the guarantee of all models
    together if they used the same records. A file counts once, also if it is named twice. Nothing
    is read but the files, and nothing is charged.

    For example:
      privatelr compare small.json full.json

    Parameters
    ----------
    models
        Files that fit has written, one or more.
    """
    if not models:
        raise ArgumentError("MODELS: one or more saved models are needed.")
    files.require_place(written.out, written.force)
    fits: dict[str, Any] = {}
    read: dict[str, Any] = {}
    for path, label in zip(models, _labels(models), strict=True):
        model, content = files.read_model(path)
        fits[label] = read.setdefault(content, model)  # one release costs once
    table = comparison.compare(fits)
    if written.json:
        columns = zip(table.facts.headers, zip(*table.facts.cells, strict=True), strict=True)
        told = {
            "terms": table.to_frame().to_dict(orient="records"),
            "facts": {
                label: dict(zip(table.facts.names, cells, strict=True)) for label, cells in columns
            },
            "notes": list(table.notes),
            "guarantee": to_json(table.guarantee),
        }
        page = as_json(told)
    else:
        page = table.as_text()
    files.deliver(page, written)
    return DONE
