"""Made-up records of a planned study, from guesses about facts that are not public, or a pilot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from privatelr import errors
from privatelr.design import DesignSpec, Variable, read_design, read_values, with_equal_weights
from privatelr.errors import ArgumentError, SchemaError
from privatelr.inference import PUBLIC_SEED, Guesses
from privatelr.inference.guessed_columns import (
    LEAST_SPREAD,
    MOST_SKEWED,
    guessed_columns,
    is_skewed,
    length_of_rows,
    level_shares,
    positive_shares,
)
from privatelr.mechanisms.signed_rows import SignedRows
from privatelr.numerics.rows import LEAST_SHARE, DenseRows
from privatelr.numerics.softmax_objective import SoftmaxObjective, classes_of, softmax
from privatelr.sources import Batch, as_batch, constant_column
from privatelr.types import FloatArray, IntArray

_LEAST_OF_PILOT, _MOST_OF_PILOT = 2000, 20_000
_PILOT_WORK = 2e6
"""Of a pilot so many rows are used that their outer products have about this number of entries."""
_SPREAD_WORDS = "a standard deviation over half the width of the bounds, a number from {} to {}"
_SPREADS = "standard deviations of numeric columns over half the width of their bounds (spread)"
_UNBOUNDED = "columns without bounds are normal, and rows of them have a root mean square length of"
_PESSIMISTIC = "pessimistic: what nine of ten studies reach"
_GUESSES = {
    "balance": (0.001, 0.999, "the share of the positive class, a number from {} to {}"),
    "c_index": (0.5, 0.99, "a number from {} (nothing to find) to {}"),
    "correlation": (0.0, 0.95, "that of two numeric columns, a number from {} to {}"),
}
"""Each guess has two limits, and words for an error message about it."""
_ROUNDS = 200
"""The intercepts of several classes are fitted to their shares in this number of rounds."""
_SMALLEST = 1e-300
"""In a logarithm, this replaces a share of 0."""


def pessimistic(guesses: Guesses) -> Guesses:
    """Guesses under which most coefficients of most real studies have shorter intervals."""
    balance = guesses.balance
    return replace(
        guesses,
        balance=balance / 1.5 if balance <= 0.5 else 1 - (1 - balance) / 1.5,
        c_index=guesses.c_index + (1 - guesses.c_index) / 4,
        correlation=1 - 0.75 * (1 - guesses.correlation),
        narrowing=0.5,
        rare_first=True,
    )


def read_guesses(**given: Any) -> Guesses:
    """Check the guesses; raises `ArgumentError`."""
    for name, (low, high, words) in _GUESSES.items():
        given[name] = _number(name, given[name], words, low, high)
    given["spread"] = read_spread(given["spread"])
    return Guesses(**given)


def read_spread(spread: Any) -> float | dict[str, float] | None:
    """Read standard deviations of columns over half the width of their bounds."""
    if isinstance(spread, Mapping):
        return {
            name: _number(f"spread[{name!r}]", value, _SPREAD_WORDS)
            for name, value in spread.items()
        }
    return None if spread is None else _number("spread", spread, _SPREAD_WORDS)


def _number(
    name: str, value: Any, words: str, low: float = LEAST_SPREAD, high: float = 1.0
) -> float:
    takes = words.format(f"{low:g}", f"{high:g}")
    return errors.require_number(ArgumentError, name, value, takes, at_least=low, at_most=high)


@dataclass(frozen=True, slots=True, eq=False)
class ClassRows:
    """Records of several classes.

    Attributes
    ----------
    rows : ndarray of shape (m, d)
    shares : ndarray of shape (m, K)
        The probabilities of the classes; 0 for a record that is not usable.
    sizes : ndarray of shape (m,)
        Sizes of the labels; larger ones than 1 are those of rows with weights
        (`privatelr.numerics.rows.row_bounds`).
    """

    rows: FloatArray
    shares: FloatArray
    sizes: FloatArray

    @property
    def classes(self) -> int:
        """K."""
        return int(self.shares.shape[1])

    def objective(self, lambda_: float) -> SoftmaxObjective:
        """The mean objective over K, in which each record is K rows weighted by its shares."""
        root = np.sqrt(np.maximum(self.shares, LEAST_SHARE)).T.ravel()
        x, sizes = np.tile(self.rows, (self.classes, 1)), np.tile(self.sizes, self.classes)
        own = np.repeat(np.arange(float(self.classes)), len(self.rows))
        limits: dict[str, Any] = {"bound": math.inf, "intercept": None, "offset_bound": math.inf}
        # rows are multiplied by the roots of their weights, as those of x are already
        rows = DenseRows(x * sizes[:, None], sizes / root, own, **limits)
        tilt = np.zeros(self.classes * self.rows.shape[1])
        return SoftmaxObjective(rows, self.classes, lambda_ / self.classes, tilt)

    def scores(self, w: FloatArray) -> FloatArray:
        """The mean ``(K d, K d)`` of the squares of gradients of records at w ``(K d,)``."""
        likely = softmax(self.sizes[:, None] * (self.rows @ w.reshape(self.classes, -1).T))
        total = np.zeros((len(w), len(w)))
        for own, share in zip(np.eye(self.classes), self.shares.T, strict=True):
            slopes = (likely - own) * (np.sqrt(share) / self.sizes)[:, None]
            each = (slopes[:, :, None] * self.rows[:, None, :]).reshape(len(self.rows), -1)
            total += each.T @ each
        return total / len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """Made-up records, or those of a public pilot.

    Attributes
    ----------
    batch : Batch
        Their values, all of them usable.
    positive : ndarray of shape (m,) or (m, K), or None
        The probability of the positive class, or of each of several classes; None if the batch has
        the classes itself.
    """

    batch: Batch
    positive: FloatArray | None

    def rows(self, spec: DesignSpec) -> DenseRows:
        """Read them as the rows of a design."""
        rows = read_design(spec, self.batch, DenseRows)
        assert isinstance(rows, DenseRows)
        return rows

    def signed(self, spec: DesignSpec) -> SignedRows:
        """Rows ``y x`` whose counts are shares that add up to 1.

        Without a response each record has both classes, weighted by their probabilities.
        """
        rows = self.rows(spec)
        sizes = np.maximum(np.abs(rows.y), 1.0)
        offset = np.zeros(rows.n) if rows.offset is None else rows.offset
        if self.positive is None:
            signs = np.sign(rows.y)
            signed = rows.x * signs[:, None]
            return SignedRows(signed, np.full(rows.n, 1 / rows.n), sizes, signs * offset)
        shares = np.concatenate([self.positive, 1 - self.positive]) / rows.n
        signed, shifts = (np.concatenate([part, -part]) for part in (rows.x, offset))
        return SignedRows(signed, shares, np.tile(sizes, 2), shifts)

    def by_class(self, spec: DesignSpec) -> ClassRows:
        """Rows x with the probabilities of several classes."""
        rows, shares = self.rows(spec), self.positive
        if shares is None:
            shares = np.eye(len(spec.response.levels))[classes_of(rows.y, rows.offset)]
        sizes = np.maximum(np.abs(rows.y), 1.0)
        return ClassRows(rows.x, shares * (rows.y != 0)[:, None], sizes)


def population_of(spec: DesignSpec, guesses: Guesses, pilot: Batch | None) -> Population:
    """The population of a study: made-up records by the guesses, or those of a public pilot.

    Of a long pilot, a part is drawn with a public seed.
    """
    responses = spec.formula.response.names
    if pilot is None:
        missing, batch = responses, as_batch(guessed_columns(spec, guesses))
    else:
        for name in spec.formula.guessed:
            if name not in pilot.names:
                raise SchemaError(
                    f"pilot: the column {name!r} is missing; a pilot has a column for every "
                    f"covariate, here {', '.join(map(repr, spec.formula.guessed))}."
                )
        missing, batch = tuple(name for name in responses if name not in pilot.names), pilot
        most = int(np.clip(_PILOT_WORK / spec.d**2, _LEAST_OF_PILOT, _MOST_OF_PILOT))
        if len(batch) > most:
            chosen = np.random.default_rng(PUBLIC_SEED).permutation(len(batch))[:most]
            batch = batch.take(np.sort(chosen))
    # the reader needs usable values of the response, although these labels are not used
    blank = [spec.variables[name] for name in missing]
    usable = {
        v.name: _levels_of(v, np.zeros(len(batch), dtype=int))
        if v.levels
        else constant_column(v.bounds[0], len(batch))
        for v in blank
    }
    batch = _coded(spec, batch.assign(usable))
    if spec.formula.person is not None:  # each record stands for all of a person's
        batch = replace(batch, shares=np.ones(len(batch)))
    found = Population(batch, None)
    rows = found.rows(with_equal_weights(spec))
    if pilot is not None and not np.any(rows.y):
        raise ArgumentError(
            "pilot: none of its records can be used; a pilot takes values within their bounds and "
            "levels, and none missing."
        )
    if not missing:
        return found
    if spec.response.kind == "classes":
        return replace(found, positive=class_shares(rows.x, guesses, len(spec.response.levels)))
    offset = 0.0 if rows.offset is None else rows.offset * np.maximum(np.abs(rows.y), 1.0)
    return replace(found, positive=positive_shares(rows.x, guesses, offset))


def class_shares(x: FloatArray, guesses: Guesses, classes: int) -> FloatArray:
    """Probabilities ``(m, K)`` of the classes at rows ``(m, d)``, by a multinomial model.

    Their shares fall by one factor from each class to the next, as those of the levels of a factor
    do. Each class is told from the first with about the guessed C-index: by the sum of all columns,
    and every other one by its negative, so that the first class lies between the others.
    """
    shares = level_shares(classes)[:: -1 if guesses.rare_first else 1]
    links = np.zeros((len(x), classes))
    for k in range(1, classes):
        pair = replace(guesses, balance=shares[k] / (shares[0] + shares[k]))
        positive = positive_shares(x if k % 2 else -x, pair)
        tiny = np.finfo(float).tiny
        links[:, k] = np.log(np.maximum(positive, tiny) / np.maximum(1 - positive, tiny))
    for _ in range(_ROUNDS):
        links += np.log(shares / np.maximum(softmax(links).mean(axis=0), _SMALLEST))
    return softmax(links)


def _coded(spec: DesignSpec, batch: Batch) -> Batch:
    """The batch with levels as categories, since a plan reads the same records many times."""
    names = tuple(name for name, v in spec.variables.items() if v.kind == "categorical")
    values, _ = read_values(spec.variables, batch, names)
    return batch.assign(
        {name: _levels_of(spec.variables[name], coded.codes) for name, coded in values.items()}
    )


def _levels_of(variable: Variable, codes: IntArray) -> pd.Series[Any]:
    """Return a column with the levels of a variable at these positions, missing where -1."""
    return pd.Series(pd.Categorical.from_codes(codes, list(variable.levels)))


def assumptions_of(
    spec: DesignSpec, guesses: Guesses, pilot: Batch | None, *, scaled: bool
) -> tuple[str, ...]:
    """The assumptions of a plan, each as a clause; `scaled` says that it releases the scale."""
    moments = (
        "the scale that standardises the rows is that of these records up to its noise, which is a "
        "part of the privacy sd",
    ) * scaled
    if spec.formula.person is not None:
        k = spec.formula.person.most
        many = "one record" if k == 1 else f"{k} records that are alike"
        moments = (f"every person has {many}", *moments)
    worse, doubtful = pessimistic(guesses), _PESSIMISTIC
    labels = (
        f"{guesses.balance:.3g} of the records are positive (balance)",
        f"the true probabilities are logistic with a C-index of {guesses.c_index:g} (c_index), to "
        "which all columns contribute alike",
    )
    both = f"{worse.balance:.3g} are positive and the C-index is {worse.c_index:.3g}"
    if spec.response.kind == "classes":
        rarest = f"{level_shares(len(spec.response.levels))[-1]:.2g}"
        labels = (
            f"shares of classes fall by one factor, from the reference to the rarest: {rarest}",
            f"each class is told from the reference with a C-index of {guesses.c_index:g} "
            "(c_index), to which all columns contribute alike",
        )
        doubtful = "pessimistic guesses"
        both = f"the reference is the rarest class and the C-index is {worse.c_index:.3g}"
    if pilot is not None:
        if all(name in pilot.names for name in spec.formula.response.names):
            return (f"records are like the {len(pilot):,} of the public pilot", *moments)
        like = f"covariates are like those of the {len(pilot):,} records of the public pilot"
        return (like, *moments, *labels, f"{doubtful}, where {both}")
    variables = [spec.variables[name] for name in spec.formula.guessed]
    strata = [v for v in variables if spec.formula.by and v.name == spec.formula.by.column]
    factors = [v for v in variables if v.levels and v not in strata]
    numbers = [v for v in variables if not v.levels and v.is_bounded]
    skewed = [v for v in numbers if is_skewed(*v.bounds) and guesses.spread_of(v) <= MOST_SKEWED]
    several = sum(not v.levels for v in variables) > 1
    clauses = []
    if numbers:
        spreads = ", ".join(f"{guesses.spread_of(v):.2g} ({v.name})" for v in numbers)
        clauses.append(f"{_SPREADS}: {spreads}")
    if len(numbers) > len(skewed):
        clauses.append("columns lie around the middle of their bounds")
    if skewed:
        named = ", ".join(v.name for v in skewed)
        clauses.append(f"amounts that begin near 0 are log-normal: {named}")
    if any(not v.is_bounded for v in variables):
        limit = spec.bound if spec.unbounded_norm is None else spec.unbounded_norm
        length = f"{length_of_rows(guesses):g} (spread) of the limit {limit:g}"
        clauses.append(f"{_UNBOUNDED} {length}")
    for v in strata:
        clauses.append(f"every stratum has as many records, 1/{len(v.levels)} of n ({v.name})")
    if factors:
        rarest = ", ".join(f"{level_shares(len(v.levels))[-1]:.2g} ({v.name})" for v in factors)
        clauses.append(f"shares of levels fall by one factor, to that of the rarest: {rarest}")
    if several:
        told = f"numeric columns have a correlation of {guesses.correlation:g} (correlation)"
        clauses.append(f"{told}, and others none")
    spread = f"spreads are {worse.narrowing:g} times as large, " * bool(numbers)
    corr = f"the correlation is {worse.correlation:.3g}, " * several
    rare = "the first level of a factor is the rarest, " * bool(factors)
    doubts = f"{doubtful}, where {spread}{corr}{rare}{both}"
    return (*clauses, *moments, *labels, "no value is missing", doubts)
