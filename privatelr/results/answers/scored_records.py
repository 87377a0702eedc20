"""Records with outcomes, scored by a released model: what private answers about a fit start from.

Their number is public. A record that cannot be used has no score, and counts by itself.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from scipy import sparse

from privatelr import design
from privatelr.errors import ArgumentError, GuaranteeError, PrivacyWarning, show
from privatelr.formula import Person
from privatelr.inference import Guesses
from privatelr.inference.guessed_columns import guessed_columns
from privatelr.mechanisms import (
    read_target,
    require_below_one_record,
    warn_of_large_delta,
)
from privatelr.mechanisms.request import read_account, read_seed, require_no_account
from privatelr.mechanisms.stages.histogram import (
    ScoreScale,
    cells_of,
    counts_in,
    counts_of_shares,
    filled_up,
)
from privatelr.privacy import (
    REPLACE_ONE,
    REPLACE_PERSON,
    ZCDP,
    Event,
    Guarantee,
    NonPrivate,
    Promise,
    PureDP,
    neighbours_about,
    pure_within,
    unless_seeded,
)
from privatelr.privacy.accounting import Account, Entry, charge, charged_if_unread
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness
from privatelr.results import predict
from privatelr.results.fit_record import ModelRecord
from privatelr.sources import (
    Batch,
    as_batch,
    is_dask,
    is_stream,
    name_of_values,
    read_source,
)
from privatelr.types import FloatArray

_MOST_COLUMNS = 200
"""Designs with more columns have no made-up records, which would take longer than the answer."""
_TYPICAL_LENGTH = 0.4
"""Length of a typical row over the largest length, where there are no made-up records."""
_LEAST_SPREAD = 1e-6
"""Smallest spread of scores that is told from none."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation:
    """Data for a private answer about a fit, of which only public facts were read.

    Attributes
    ----------
    fit : ModelRecord
    data, outcomes
        The table of records, and the batch that has their response; or twice the same partitions.
    length : int or None
        The number of records in memory, or of persons; None for those of parts.
    has_unnamed_persons : bool
        Whether the values that tell persons apart have no name of a column.
    """

    fit: ModelRecord
    data: Any
    outcomes: Any
    length: int | None
    has_unnamed_persons: bool = False

    @property
    def person(self) -> Person | None:
        """Who the records are of, if all records of a person count as one together."""
        return cast("Person | None", self.fit.spec.formula.person)

    @property
    def n(self) -> int:
        """The number of records, or of persons; the first call counts those of parts."""
        return len(self.data) if self.length is None else self.length

    def counts(self, edges: FloatArray) -> FloatArray:
        """Return the number of records in each cell ``(2 K + 1,)`` between `edges`; private.

        Partitions send counts alone. If these are no longer of n records, the release fails.
        """
        if self.is_in_parts:
            formula = self.fit.spec.formula
            read = tuple(dict.fromkeys((*formula.scored, *formula.selecting)))
            found = self.data.over(read, partial(_counts_of_part, self.fit, edges))
            return np.asarray(np.sum(found, axis=0))
        size = len(edges) + 1
        with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
            cells = cells_of(*self.scores(), edges)
            if self.person is None:
                return counts_in(cells, size)
            counts = counts_of_shares(cells, self.outcomes.shares, size, self.n)
        return filled_up(counts, self.n)

    @property
    def is_in_parts(self) -> bool:
        """Whether the records are in partitions or in a stream, of which counts alone come here."""
        return self.length is None

    def scores(self) -> tuple[FloatArray, FloatArray]:
        """Return linear predictors and labels ``(n,)`` of records that are in memory; private."""
        return scores_of_table(self.fit, self.data, self.outcomes)


def _counts_of_part(fit: ModelRecord, edges: FloatArray, part: Batch) -> FloatArray:
    with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
        return counts_in(cells_of(*scores_of_table(fit, part, part), edges), len(edges) + 1)


def scores_of_table(fit: ModelRecord, data: Any, outcomes: Any) -> tuple[FloatArray, FloatArray]:
    """Linear predictors and labels ``(n,)`` of records in memory and of their outcomes; private."""
    link, spec = predict.linear_predictors(fit, data), fit.spec
    with np.errstate(all="ignore"):
        label = design.read_labels(spec.response, spec.variables, outcomes)
        weight, names = getattr(spec, "weight", None), spec.formula.selecting
        if weight is not None and names:  # records that the fit was not about are not usable
            batch = as_batch(data)
            label = np.where(design.read_selected(weight, spec.variables, names, batch), label, 0.0)
        return link, label


def _reader_of_parts(data: Any) -> Any:
    """Return what reads partitions, or a stream, with a formula; None for a table in memory."""
    if is_stream(data):
        return design.read_stream_source
    return design.read_dask_source if is_dask(data) else None


def open_data(fit: ModelRecord, data: Any, response: Any, person: Any = None) -> Evaluation:
    """Check names, shapes and types of the data for a private answer.

    Raises
    ------
    ArgumentError, FormulaError, SchemaError
        One sentence each, on public facts only.
    """
    spec, formula = fit.spec, fit.spec.formula
    about, read = formula.person, _reader_of_parts(data)
    if about is None and person is not None:
        raise ArgumentError(
            "person: the fit is about records, of which each counts by itself; a fit with person= "
            "is about persons."
        )
    if about is not None and read is not None:
        raise ArgumentError(
            "data: answers about persons take a table in memory, as data.compute() is of a Dask "
            "collection."
        )
    if is_stream(data) and (response is not None or not spec.has_names):
        raise ArgumentError(
            "response: a stream of records has the outcomes in a column of its own; leave response "
            "out, with a fit of a formula."
        )
    is_bare = response is None and not spec.has_names
    if about is not None and (is_bare or (response is None) is not (person is None)):
        raise ArgumentError(
            "response, person: both are columns of the data, or values beside it, one for each "
            "row; beside a sparse matrix they are values."
        )
    if is_bare:
        raise ArgumentError(
            "response=None: the fit was of a matrix, beside which response takes the outcomes, one "
            "for each row."
        )
    own = formula.covariates
    if response is None:
        own = formula.scored if about is None else (*formula.scored, about.column)
    if read is not None and response is None:
        table: Any = read(formula.text, data, None)[1]
        design.require_readable(spec, table.typed, (*own, *formula.selecting))
        design.require_outcomes(spec, table.typed)
        return Evaluation(fit, table, table, None)
    if spec.has_names:
        data = as_batch(data)
        design.require_readable(spec, data, (*own, *formula.selecting))
    rows = len(data) if spec.has_names else int(design.as_matrix(spec, data).shape[0])
    if response is None:
        design.require_outcomes(spec, data)
    outcomes = data if response is None else _beside(fit, response, rows, person)
    if about is not None:
        rows, _, outcomes = design.with_shares(outcomes, about)
    if rows == 0:
        raise ArgumentError("data is empty: a private answer takes at least one record.")
    is_unnamed = person is not None and name_of_values(person) is None
    return Evaluation(fit, data, outcomes, rows, is_unnamed)


def _beside(fit: ModelRecord, response: Any, n: int, person: Any = None) -> Any:
    """Return outcomes, and persons, beside the data, under the names that the formula has."""
    names = fit.spec.response.expression.names
    if isinstance(response, str):
        raise ArgumentError(
            f"response={show(response)}: response takes the outcomes themselves, one for each "
            "record; leave it out where data has them in a column."
        )
    if len(names) != 1:
        raise ArgumentError(
            f"response: the formula computes it from {', '.join(names)}; leave response out, and "
            "let data have these columns."
        )
    if isinstance(person, str):
        raise ArgumentError(
            f"person={show(person)}: beside response person takes values as well, one for each row."
        )
    _, both = read_source(response, np.zeros((n, 1)), None, person)
    whose = fit.spec.formula.person
    design.require_persons_of(fit.spec.formula, name_of_values(person))
    kept = names if whose is None else (*names, whose.column)
    outcomes = as_batch(dict(zip(kept, map(both.column, both.names[1:]), strict=True)))
    design.require_outcomes(fit.spec, outcomes)
    return outcomes


def score_scale(fit: ModelRecord) -> ScoreScale:
    """Return where the linear predictors of a fit are expected, by public guesses about records.

    Notes
    -----
    **Privacy.** *Covered*: a function of the release and of declarations, free to repeat.
    *Neighbours*, *Assumed public*: those of the fit. *Not covered*: nothing.
    """
    spec, coef = fit.spec, fit.release.coef
    if spec.has_names and spec.d <= _MOST_COLUMNS:
        link = predict.linear_predictors(fit, guessed_columns(spec, Guesses()))
        link = link[np.isfinite(link)]
    else:
        link = np.zeros(0)
    if len(link):
        return ScoreScale(float(link.mean()), max(float(link.std()), _LEAST_SPREAD))
    first = int(spec.intercept is not None)
    middle = float(coef[0]) * spec.intercept if first else 0.0
    reach = _TYPICAL_LENGTH * getattr(spec, "bound", 1.0)
    return ScoreScale(middle, max(reach * float(np.linalg.norm(coef[first:])), _LEAST_SPREAD))


# -- what an answer costs --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a private answer, read before its data is touched."""

    target: Promise
    account: Account | None
    randomness: Randomness
    person: str | None = None

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the answer: the target, or none if its noise can be replayed."""
        return unless_seeded(self.target, not self.randomness.is_secret)

    def pay(self, events: tuple[Event, ...], label: str) -> Entry | None:
        """Charge the ledgers, if there are any; they refuse what they cannot cover."""
        return charge(self.account, self.guarantee, events, label, self.person)


def read_price(
    eps: Any, delta: Any, ledger: Any, seed: Any, what: str, opened: Evaluation
) -> Price:
    """Check the price of an answer about data that was opened.

    Raises
    ------
    ArgumentError, GuaranteeError
    """
    none, about = "no noise, which is refused here", opened.person
    target = read_target(eps, delta, plain=none, neighbours=neighbours_about(about))
    if isinstance(target, NonPrivate):
        raise GuaranteeError(
            f"eps={eps!r}: {what} takes a price above 0; fit.diagnostics has exact numbers of the "
            "training data, which are not private."
        )
    account, replayed = read_account(ledger), read_seed(seed, "noise", what, stacklevel=6)
    if opened.has_unnamed_persons:
        require_no_account(account)
    randomness = SystemRandomness() if replayed is None else SeededRandomness(replayed)
    column = None if about is None else about.column
    price = Price(target, account, randomness, column)
    with charged_if_unread(account, price.guarantee, is_read=opened.is_in_parts):
        n = opened.n
    require_below_one_record(target, n)
    warn_of_large_delta(target, n, stacklevel=5)
    return price


def require_payable(eps: Any, data: Any, ledger: Any, seed: Any) -> None:
    """Refuse what is wrong for a choice whatever its fits are, before calls that pay make them."""
    about = getattr(eps, "neighbours", REPLACE_ONE)
    target = read_target(eps, 0.0, plain=None, neighbours=about)
    paid = require_pure(target)
    if about is REPLACE_ONE and not sparse.issparse(data) and not len(as_batch(data)):
        raise ArgumentError("data is empty: a private answer takes at least one record.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # it comes with the choice
        read_seed(seed, "noise", "choose")
    if (account := read_account(ledger)) is not None:
        account.require_room(unless_seeded(target, seed is not None), (paid,))


def require_pure(target: Guarantee) -> PureDP:
    """Return the pure epsilon of a choice, whose mechanism has a pure guarantee.

    Under a rho it is the largest one that implies it.

    Raises
    ------
    GuaranteeError
        If the price has a delta, which the mechanism cannot use.
    """
    match target:
        case PureDP():
            return target
        case ZCDP(rho=rho):
            return PureDP(pure_within(rho), target.neighbours)
    raise GuaranteeError(
        f"{target}: choose has no use for a delta; it takes a pure epsilon, such as eps=1, "
        "or ZCDP(rho)."
    )


def fit_price(guarantee: Guarantee) -> str:
    """A sentence part on the price of the fit, which an answer about it does not contain."""
    if isinstance(guarantee, NonPrivate):
        return (
            f"{guarantee}; so the promise here is void for the records that the fit was trained on"
        )
    whom = "person" if guarantee.neighbours is REPLACE_PERSON else "record"
    return f"{guarantee}, paid apart; both add up for a {whom} that is in both data"
