"""Several fits side by side: estimates with their errors, facts of each fit, and the joint price.

Whatever the table shows was public or paid for; the sum of the prices is that of a ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from privatelr import page_model
from privatelr.arguments import suggests_arguments
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    MissingDependencyError,
    require_choice,
    require_whole,
)
from privatelr.inference import Inference, Question
from privatelr.numerics import describe
from privatelr.page_model import Piece, Table, in_words, shorten
from privatelr.privacy import (
    REPLACE_PERSON,
    ZCDP,
    ApproxDP,
    Event,
    Guarantee,
    NonPrivate,
    PureDP,
    prices,
)
from privatelr.privacy.accounting import column_of_persons, joint_guarantee
from privatelr.results import fit_tables, odds_ratios
from privatelr.results.answers.named_fits import named_fits
from privatelr.results.fit_record import ModelRecord, NoisyRecord
from privatelr.results.fit_tables import infer_coefficients
from privatelr.results.pages.coefficient_table import figures, odds_figures
from privatelr.results.pages.error_notes import lacks_errors
from privatelr.results.pages.sentences import sentences_of_paid, unseen_records
from privatelr.types import FloatArray

Statistic = Literal["std_error", "conf_int"]
_KINDS = {PureDP: "pure", ZCDP: "zCDP", ApproxDP: "approximate", NonPrivate: "none"}
_PRICES = ("epsilon", "delta", "rho")
_NOISE = ("privacy_sd_expected", "privacy_sd_limit")
_NUMBERS = ("estimate", "std_error", "conf_low", "conf_high", *_NOISE)
_PARTS = ("sampling_sd", "privacy_sd", "unknown_sd")
_LONGEST_CELL = 22
"""Cells and labels of text are cut to this width in characters; other formats have all of them."""
_STUB = 30
"""Columns of text stand beside names of up to this width; longer names have a line of their own."""
_CLOSING = (")", "]", "}")
_LARGEST_FIXED = 1e7
"""Numbers with a fixed number of decimals are written with a power of ten from here on."""
_FAR = "Intervals stand in place of standard errors, because the errors of {} are far from normal."
_MOST_DIGITS = 10
_Releases = Iterable[tuple[Guarantee, tuple[Event, ...]]]


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(page_model.Paged):
    """Fits side by side; it prints as text, and is a table in a notebook.

    Attributes
    ----------
    terms : Table
        For each term a row of estimates, and below it one of errors. A column is a fit.
    facts : Table
        For each fit the number of records, response, guarantee and so on.
    notes : tuple of str
        The sentences below the table; the last ones are about all fits together.
    guarantee : Guarantee
        That of all fits together, if they used the same records; notes have what else was paid.
    """

    terms: Table
    facts: Table
    notes: tuple[str, ...]
    guarantee: Guarantee
    _frame: pd.DataFrame

    def as_text(self) -> str:
        """The table as text of at most 79 columns; wide ones go below each other."""
        blocks = [piece for table in text_blocks(self.terms, self.facts) for piece in (table, "")]
        return page_model.as_text([*blocks, *self.notes])

    def as_gt(self) -> Any:
        """The table as a ``GT`` of great_tables, which is installed apart, to be styled further."""
        return as_great_table(self.terms, self.facts, self.notes)

    def to_frame(self) -> pd.DataFrame:
        """The numbers behind the table: one row for each fit and each of its terms.

        Columns are fit, term, estimate, std_error with its parts sampling_sd, privacy_sd and
        unknown_sd (see `Fit.tidy`), conf_low and conf_high, and privacy_sd_expected and
        privacy_sd_limit, about what the noise adds where there is no std_error. With
        ``exponentiate=True`` the estimate and the interval are those of the odds ratio of one unit,
        and the other columns, which then end in ``_log``, are about its logarithm.
        """
        return self._frame.copy()

    def page(self) -> list[Piece]:
        """The pieces of the page, whose one table is as wide as all fits."""
        names, gap = (*self.terms.names, "", *self.facts.names), ("",) * len(self.terms.headers)
        cells = (*self.terms.cells, gap, *self.facts.cells)
        return [Table(names, self.terms.headers, cells), *self.notes]

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.terms.headers)}; {self.guarantee}>"


@suggests_arguments
def compare(
    fits: Any,
    *others: Any,
    statistic: Statistic = "std_error",
    level: float = 0.95,
    exponentiate: bool = False,
    digits: int | None = None,
) -> Comparison:
    """Table of several fits side by side, with the guarantee of all of them together.

    Each fit is a column. Below an estimate stands its standard error or its interval, by the
    default mode and target of the fit. A fit without inference has a forecast of the standard
    deviation of its noise there, and an upper bound on it.

    Parameters
    ----------
    fits, others : ModelRecord or Strata
        Several fits, or one list of fits, or one mapping from labels to fits. They may be of any
        model of the package, private or not, or from files. Strata are a fit for each level, and a
        term of several classes is a row for each of them but the reference.
    statistic : {"std_error", "conf_int"}
        What stands below an estimate; intervals, if some fit has no standard errors because its
        errors are far from normal.
    level : float
        Level of confidence.
    exponentiate : bool
        Whether to show odds ratios with their intervals instead of coefficients. Standard errors
        remain those of the coefficient, as on the page of a fit.
    digits : int, optional
        Number of decimals; by default each term has at least three significant digits.

    Returns
    -------
    Comparison

    Raises
    ------
    ArgumentError
        If something is no fit, if two fits have one label, or if odds ratios are requested and a
        fit has none.
    GuaranteeError
        If fits are about different neighbours, because their guarantees cannot be added up.

    Notes
    -----
    **Privacy.** *Covered*: the table, which is a function of releases; if all fits used the same
    records, by `Comparison.guarantee`. A release that stands in several columns counts once.
    *Neighbours*, *Assumed public*: those of the releases. *Not covered*: the columns of fits
    without a guarantee.

    Examples
    --------
    >>> from privatelr import compare, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fits = [dplr("vote ~ age", votes, eps=eps, **public) for eps in (0.5, 1.0)]
    >>> print(compare(fits).guarantee)
    epsilon = 1.5 (pure)
    """
    takes = "fits of this package, a list of them, or a mapping from labels to fits"
    several = [fits, *others] if others else fits
    named = named_fits("compare", ModelRecord, takes, several, strata=True)
    require_choice(ArgumentError, "statistic", statistic, ("std_error", "conf_int"))
    as_odds = False
    for fit in named.values():
        as_odds = odds_ratios.read_exponentiate(fit, exponentiate)
    places, asked = _read_digits(digits), Question(level, target=None)
    whole = together(named.values())
    found = {
        label: infer_coefficients(fit, asked) for label, fit in named.items() if fit.has_inference
    }
    far = [label for label, one in found.items() if lacks_errors(one)]
    below: Statistic = "conf_int" if far else statistic
    columns = {label: numbers_of(fit, found.get(label)) for label, fit in named.items()}
    pages = dict.fromkeys(
        columns[label].index[row]
        for label, fit in named.items()
        for row in fit.kind.rows(fit, fit.kind.estimates(fit))
    )
    every = {name for column in columns.values() for name in column.index}
    shown = pd.Index(pages, name="term")
    frame = as_frame(columns, shown, as_odds=as_odds)
    columns = {label: column.reindex(shown) for label, column in columns.items()}
    spans = np.fmax.reduce([column["span"].to_numpy() for column in columns.values()])
    divisors = odds_ratios.readable_units(spans) if as_odds else np.ones(len(shown))
    notes = [
        *_notes_on_rows(len(shown), len(every), divisors),
        *_notes_on_errors(columns, below, level, as_odds=as_odds),
        *([_FAR.format(in_words(far))] if below != statistic else []),
        *_notes_on_models(named, found),
        *dict.fromkeys(line for fit in named.values() for line in unseen_records(fit)),
        *_notes_on_sum(named, whole),
        *sentences_of_paid((fit.spec for fit in named.values()), whole),
    ]
    terms = term_table(columns, divisors, below, places, as_odds=as_odds)
    return Comparison(terms, fact_table(named, found), tuple(notes), whole, frame)


def _read_digits(digits: Any) -> int | None:
    if digits is None:
        return None
    takes = f"None, or a whole number of decimals from 0 to {_MOST_DIGITS}"
    limits = {"at_least": 0, "at_most": _MOST_DIGITS}
    return require_whole(ArgumentError, "digits", digits, takes, **limits)


# -- notes ---------------------------------------------------------------------------------------


def _notes_on_rows(shown: int, known: int, divisors: FloatArray) -> Iterator[str]:
    if shown < known:
        yield f"{shown} of {known} terms are shown: the largest ones of each fit."
    if (divisors != 1).any():
        yield "Names say of how many units an odds ratio is, where that of one is hard to read."


def _notes_on_errors(
    columns: Mapping[str, pd.DataFrame],
    statistic: Statistic,
    level: float,
    *,
    as_odds: bool,
) -> Iterator[str]:
    """Sentences about the numbers below the estimates, and about estimates that stand alone."""
    log = " of the coefficient, which is the logarithm of the odds ratio" if as_odds else ""
    bought = [label for label, one in columns.items() if one["conf_low"].notna().any()]
    limited = [label for label, one in columns.items() if one["privacy_sd_limit"].notna().any()]
    foreseen = any(one["privacy_sd_expected"].notna().any() for one in columns.values())
    alone = [label for label in columns if label not in {*bought, *limited}]
    if as_odds:
        yield "Odds ratios are exponentials of the coefficients."
    if bought and statistic == "conf_int":
        yield f"In brackets: intervals at {100 * level:g}%."
    elif bought:
        yield f"In parentheses: standard errors{log}, of sampling and all noise together."
    if limited:
        yield (
            "In braces, for fits without standard errors: the standard deviation that the noise "
            f"adds{log and ' to the coefficient'}, "
            f"{'as a forecast by public guesses, and ' * foreseen}at most."
        )
    if alone and len(alone) < len(columns):
        yield f"There are no standard errors of {in_words(alone)}."


def _notes_on_models(
    fits: Mapping[str, ModelRecord], found: Mapping[str, Inference]
) -> Iterator[str]:
    """Sentences about what makes estimates of one table differ in their meaning."""
    meant = {label: found[label].target if label in found else "as released" for label in fits}
    if len({*meant.values()}) > 1:
        yield f"Estimates are of different coefficients: {by_value(meant)}."
    for n in dict.fromkeys(fit.nobs for fit in fits.values() if fit.spec.formula.by):
        yield f"n = {n} in all strata together; how many each of them has is private."
    responses = {label: fit.spec.response.describe() for label, fit in fits.items()}
    if len({*responses.values()}) > 1:
        for text in dict.fromkeys(responses.values()):
            yield f"Response of {in_words([k for k, v in responses.items() if v == text])}: {text}."
    if len({fit.loss.title for fit in fits.values()}) > 1:
        yield "Coefficients of different losses are on different scales."


# -- the price of all ----------------------------------------------------------------------------


def together(
    fits: Iterable[ModelRecord], beside: _Releases = (), *, what: str = "compare"
) -> Guarantee:
    """Return the guarantee of all these fits on the same records; one release counts once.

    So do strata of one call. Other releases stand `beside` them, each with its events.

    Raises
    ------
    GuaranteeError
        If they are about different neighbours, or persons of different columns.
    """
    releases = paid_once(fits)
    if len({fit.guarantee.neighbours for fit in releases if fit.guarantee.is_private}) > 1:
        told = f"different neighbours, whose guarantees cannot be added; {what} those of the same"
        raise GuaranteeError(f"{what}: the fits are about {told}.")
    stated = (one and one.column for one in (fit.spec.formula.person for fit in releases))
    column_of_persons(stated, what, f"{what} fits about persons of one column")
    return joint_guarantee([*((fit.guarantee, fit.kind.events(fit)) for fit in releases), *beside])


def paid_once(fits: Iterable[ModelRecord]) -> Sequence[ModelRecord]:
    """Return one of the fits for each price that was paid."""
    return [*{_paid_by(fit): fit for fit in fits}.values()]


def _paid_by(fit: ModelRecord) -> int:
    """A number that fits share which were paid for once: a release, or the strata of one call.

    Those have one calibration, which was made for all of them.
    """
    by = fit.spec.formula.by
    return id(fit.release if by is None else fit.release.calibration)


def _notes_on_sum(fits: Mapping[str, ModelRecord], whole: Guarantee) -> Iterator[str]:
    """Sentences about the guarantee of all fits together, and about what it takes."""
    rest = {label: fit for label, fit in fits.items() if fit.guarantee.is_private}
    without = [label for label in fits if label not in rest]
    if without:
        why = {label: str(fits[label].guarantee).removeprefix("none: ") for label in without}
        reasons = by_value(why, "; ") if len({*why.values()}) > 1 else why[without[0]]
        yield (
            f"All fits together have no guarantee, because {in_words(without)} "
            f"{'has' if len(without) == 1 else 'have'} none ({reasons})."
        )
        if not rest:
            return
        whole = together(rest.values())
    about, several = f"neighbours {whole.neighbours.value}", "The others" if without else "All fits"
    of_persons = whole.neighbours is REPLACE_PERSON
    same = "the same records" + ", with the same values to tell persons apart" * of_persons
    releases = {id(fit.release) for fit in rest.values()}
    paid = {_paid_by(fit) for fit in rest.values()}
    if len(paid) == 1:
        yield f"The price of {in_words(list(rest))}: {whole}; {about}."
    else:
        yield (f"{several} together: {whole}. This holds if all of them used {same}; {about}.")
    if len({fit.nobs for fit in rest.values()}) > 1:
        one, many = ("person", "persons") if of_persons else ("record", "records")
        yield (
            f"Their numbers of {many} differ, so they did not use the same ones, and this is the "
            f"price of a {one} that is in all of them{', with the same records' * of_persons}."
        )
    if len(releases) < len(rest):
        yield "A release that stands in several columns costs once."
    if len(paid) < len(releases):
        yield (
            "Strata of one call were paid for together: a record counts in one of them, and may "
            "move to another, which costs no more than another record in its own."
        )
    yield (
        "Counted is the noise of these releases, which may be worth less than their promises, at "
        "prices that were fixed before the first of them. A Ledger also counts releases that are "
        "not in the table, and prices that results chose."
    )


# -- numbers -------------------------------------------------------------------------------------


def numbers_of(fit: ModelRecord, found: Inference | None) -> pd.DataFrame:
    """The numbers of all terms of a fit; those that it does not have are NaN."""
    names = [str(name) for name in fit.kind.names(fit)]
    numbers: dict[str, Any] = dict.fromkeys((*_NUMBERS, *_PARTS), np.nan)
    if found is not None:
        ends = {"conf_low": found.lower, "conf_high": found.upper}
        own = {"estimate": found.estimate, **fit_tables.error_columns(found), **ends}
        numbers |= {name: own[name] for name in numbers if name in own}
    else:
        numbers["estimate"] = fit.kind.estimates(fit)
        if fit.guarantee.is_private:
            numbers |= dict(zip(_NOISE, fit.kind.noise(fit, list(range(len(names)))), strict=True))
    return pd.DataFrame(numbers | {"span": odds_ratios.spans_of(fit)}, index=names)


def as_frame(
    columns: Mapping[str, pd.DataFrame], shown: pd.Index[Any], *, as_odds: bool
) -> pd.DataFrame:
    """One row for each fit and shown term that the fit has; see `Comparison.to_frame`."""
    ordered = [*_NUMBERS[:2], *_PARTS, *_NUMBERS[2:]]
    there = {k: column.loc[shown[shown.isin(column.index)]] for k, column in columns.items()}
    frame = pd.concat(there, names=["fit", "term"])[ordered].reset_index()
    if not as_odds:
        return frame
    ends = ["estimate", "conf_low", "conf_high"]
    with np.errstate(over="ignore"):
        frame[ends] = np.exp(frame[ends])
    errors = ("std_error", *_PARTS, *_NOISE)
    return frame.rename(columns={name: f"{name}_log" for name in errors})


# -- cells ---------------------------------------------------------------------------------------


def term_table(
    columns: Mapping[str, pd.DataFrame],
    divisors: FloatArray,
    statistic: Statistic,
    digits: int | None,
    *,
    as_odds: bool,
) -> Table:
    """Two rows for each term: estimates, and what stands below them if there is anything."""
    shown = next(iter(columns.values())).index
    table = np.array([column[list(_NUMBERS)].to_numpy() for column in columns.values()])
    if statistic != "conf_int":
        table[..., 2:4] = np.nan
    names, cells = list[str](), list[Sequence[str]]()
    for place, (name, divisor) in enumerate(zip(shown, divisors.tolist(), strict=True)):
        estimates, below = _two_rows(table[:, place] / divisor, digits, as_odds=as_odds)
        names.append(odds_ratios.with_unit(name, divisor))
        cells.append(estimates)
        if any(below):
            names.append("")
            cells.append(below)
    return Table(names, tuple(columns), cells)


def _two_rows(
    numbers: FloatArray, digits: int | None, *, as_odds: bool
) -> tuple[list[str], list[str]]:
    """Return the cells of one term: its estimates, and its errors in their brackets.

    Parameters
    ----------
    numbers : ndarray of shape (fits, 6)
        One row per fit; see `_NUMBERS`. NaN for what is not there.
    """
    estimate, sd, low, high, expected, limit = numbers.T
    error = np.fmax(sd, np.where(np.isnan(expected), limit, expected))
    if as_odds:
        estimates, lows, highs = (_odds(logs, error, digits) for logs in (estimate, low, high))
        errors, limits = _figures(error, digits), _figures(limit, digits)
    else:  # the same number of decimals in all numbers of a term
        shown = _figures(np.concatenate([estimate, low, high, error, limit]), digits)
        parts = range(0, len(shown), len(sd))
        estimates, lows, highs, errors, limits = (shown[k : k + len(sd)] for k in parts)
    below = []
    for place in range(len(sd)):
        if lows[place]:
            below.append(f"[{lows[place]}, {highs[place]}]")
        elif not np.isnan(sd[place]):
            below.append(f"({errors[place]})")
        elif limits[place]:
            foreseen = "" if np.isnan(expected[place]) else f"{errors[place]}; "
            below.append(f"{{{foreseen}{limits[place]}}}")
        else:
            below.append("")
    return estimates, below


def _figures(values: FloatArray, digits: int | None) -> list[str]:
    """Numbers with this many decimals; what would round to zero has a power of ten."""
    if digits is None:
        return figures(values)
    return [_fixed(value, digits) for value in values.tolist()]


def _odds(logs: FloatArray, error: FloatArray, digits: int | None) -> list[str]:
    """Odds ratios with this many decimals, none of which is written as zero or as infinity."""
    if digits is None:
        return odds_figures(logs, error)
    with np.errstate(all="ignore"):
        odds = np.exp(logs).tolist()
    return [odds_ratios.beyond(value) or _fixed(value, digits) for value in odds]


def _fixed(value: float, digits: int) -> str:
    if np.isnan(value):
        return ""
    text = f"{value:.{digits}f}"
    lost = value != 0 and float(text) == 0
    return f"{value:.{max(digits - 1, 0)}e}" if lost or abs(value) >= _LARGEST_FIXED else text


# -- facts ---------------------------------------------------------------------------------------


def fact_table(fits: Mapping[str, ModelRecord], found: Mapping[str, Inference]) -> Table:
    """One row for each fact that a fit has, and one column per fit."""
    columns = [_facts_of(fit, found.get(label)) for label, fit in fits.items()]
    names = [name for name in columns[0] if any(column[name] for column in columns)]
    cells = tuple(tuple(column[name] for column in columns) for name in names)
    return Table(tuple(names), tuple(fits), cells)


def _facts_of(fit: ModelRecord, found: Inference | None) -> dict[str, str]:
    price, formula = prices(fit.guarantee), fit.spec.formula
    terms = {name: getattr(formula, name) for name in ("weights", "subset")}
    kind = next(word for kind, word in _KINDS.items() if isinstance(fit.guarantee, kind))
    return {
        "n": "" if formula.by else f"{fit.nobs}",
        "response": fit.spec.response.expression.label,
        "offset": " + ".join(part.label for part in formula.offsets),
        **{name: "" if term is None else term.label for name, term in terms.items()},
        "prior": "" if fit.spec.prior is None else fit.spec.prior.source,
        "guarantee": kind,
        **{name: f"{price[name]:.6g}" if name in price else "" for name in _PRICES},
        **fit.kind.compared(fit, "" if found is None else found.mode),
    }


def compared_noise(fit: NoisyRecord, mode: str) -> dict[str, str]:
    """Facts about noise, loss, lambda, scale and inference in a comparison."""
    calibration, scale = fit.calibration, fit.release.scale
    plain, classes = calibration.noise.scale == 0, fit.spec.response.kind == "classes"
    learned = "not released" if scale is None else "released"
    return {
        "mechanism": "none" if plain else calibration.placement,
        "loss": "softmax" if classes else describe(fit.loss),
        "lambda": f"{calibration.lambda_:.3g}",
        "scale": "by the data" if fit.spec.scaled_by_data else learned,
        "inference": "without noise" if plain and mode else mode,
    }


# -- text ----------------------------------------------------------------------------------------


def as_great_table(terms: Table, facts: Table, notes: Sequence[str]) -> Any:
    """Both tables as one of great_tables, in two groups of rows, and the notes below it.

    Raises
    ------
    MissingDependencyError
        If great_tables is not installed.
    """
    try:
        from great_tables import GT
    except ImportError as missing:
        raise MissingDependencyError(
            "as_gt: takes great_tables; install it by `pip install great_tables`."
        ) from missing
    # names of our own, since labels of fits may be any text
    labels: dict[str, Any] = {f"fit {place}": label for place, label in enumerate(terms.headers, 1)}
    rows = [("Coefficients", *row) for row in terms.rows] + [("Fits", *row) for row in facts.rows]
    frame = pd.DataFrame(rows, columns=["part", "row", *labels])
    made = GT(frame, rowname_col="row", groupname_col="part").cols_label(cases=labels)
    for note in notes:
        made = made.tab_source_note(note)
    return made.cols_align("right", columns=list(labels))


def text_blocks(terms: Table, facts: Table) -> Iterator[Table]:
    """Divide the columns into tables that each fit the width of a page of text.

    Rows that are empty in all columns of a block are left out, but for one between the two parts.
    """
    names = [" ".join(name.split()) for name in (*terms.names, "", *facts.names)]
    gap = ("",) * len(terms.headers)
    rows = [tuple(map(_cut, row)) for row in (*terms.cells, gap, *facts.cells)]
    if any(cell.endswith(_CLOSING) for row in rows for cell in row):
        # numbers without a bracket end where those in brackets do
        rows = [tuple(c if c.endswith(_CLOSING) else f"{c} " for c in row) for row in rows]
    stub = min(max(map(len, names)), _STUB)
    blocks, taken = list[list[tuple[str, ...]]](), page_model.WIDTH
    for column in zip(map(_cut, terms.headers), *rows, strict=True):
        width = max(map(len, column)) + 2
        if taken + width > page_model.WIDTH:
            blocks.append([])
            taken = stub
        blocks[-1].append(column)
        taken += width
    for block in blocks:
        headers, *cells = zip(*block, strict=True)
        named = zip(names, cells, strict=True)
        kept = [
            (name, row)
            for index, (name, row) in enumerate(named)
            if index == len(terms.names) or "".join(row).strip()
        ]
        yield Table([name for name, _ in kept], headers, [row for _, row in kept])


def _cut(cell: str) -> str:
    return shorten(" ".join(cell.split()), _LONGEST_CELL)


def by_value(named: Mapping[str, str], between: str = ", ") -> str:
    """Say which labels have which value, in the order of the values."""
    groups = {value: [k for k, v in named.items() if v == value] for value in named.values()}
    return between.join(f"{value} in {in_words(labels)}" for value, labels in groups.items())
