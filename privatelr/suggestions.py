"""`suggest_bounds` and `levels_from`: declarations that are paid for, where none are known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.arguments import suggests_arguments
from privatelr.design import Variable, describe_variables, read_variable
from privatelr.errors import GuaranteeError, SchemaError, listed, or_meant, show
from privatelr.fitting import charge
from privatelr.mechanisms import (
    read_target,
    require_below_one_record,
    warn_of_large_delta,
    warn_of_one_record,
)
from privatelr.mechanisms.level_selection import calibrate_levels
from privatelr.mechanisms.range_selection import (
    calibrate_ranges,
    candidate_ends,
    choose_range,
    slots_of,
)
from privatelr.mechanisms.request import read_account, read_seed
from privatelr.model_data import FrameData, read_data
from privatelr.privacy import ApproxDP, Guarantee, Promise, unless_seeded
from privatelr.privacy.accounting import AnyLedger
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness
from privatelr.results.declarations import ReleasedLevels, SuggestedBounds
from privatelr.sources import Batch, BoundsLike, Schema, declare_schema
from privatelr.types import FloatArray, IntArray

_NOT_PARSED = "~"
"""It stands where a fit has its formula."""


@suggests_arguments
def suggest_bounds(
    data: Any,
    bounds: BoundsLike,
    eps: float | Guarantee,
    delta: float = 0.0,
    *,
    ledger: AnyLedger | None = None,
    seed: int | None = None,
) -> SuggestedBounds:
    """Suggest bounds by private quantiles within a declared outer range.

    Parameters
    ----------
    data
        A frame, a mapping of columns, an array, or a Dask frame, as for `dplr`.
    bounds : mapping
        Maps columns to outer ranges that surely hold all values of interest, such as
        ``{"age": (0, 150)}``. Values outside are clipped to them. They may be very wide.
    eps : float or guarantee
        Price of all columns together, which is divided evenly among both ends of each column.
    delta : float
        0 for pure privacy; many columns are cheaper with a delta.
    ledger : Ledger or path, optional
        Account to charge before the data is read, as is that of an open block.
    seed : int, optional
        Repeats the choices, for tests and teaching. Voids the guarantee.

    Returns
    -------
    SuggestedBounds
        A mapping that goes into ``bounds=`` as it is, or with others: ``{**suggested, "x": (0,
        1)}``. It prints the ranges and the price.

    Raises
    ------
    ArgumentError, GuaranteeError, SchemaError
        One sentence each, on public facts only; also if, with n and the price, the ends would be
        mostly noise.

    Notes
    -----
    **Privacy.** *Covered*: the ranges, by ``guarantee``. *Neighbours*: datasets of the same n that
    differ in one record. *Assumed public*: n, names, types, the outer ranges and the price. *Not
    covered*: time and memory.

    Candidates for the ends are public, see `candidate_ends`, and are chosen by the exponential
    mechanism, see `scores_of_low`. A missing value, an infinite one, and one that is not a number
    lies beyond neither end.

    Examples
    --------
    >>> suggested = suggest_bounds(frame, {"age": (0, 150), "income": (0, 1e7)}, eps=0.2)
    >>> fit = dplr("y ~ age + income", frame, eps=0.8, bounds=suggested)
    """
    target = _read_price(eps, delta)
    outer = dict(declare_schema(bounds).bounds)
    if not outer:
        raise SchemaError('bounds: takes an outer range for each column, as in {"age": (0, 150)}.')
    source = _read_table(data)
    variables = describe_variables(source.batch, outer, Schema(outer))
    _require_no_text(variables)
    account, randomness = read_account(ledger), _randomness(seed)
    n, ends = len(source), {name: candidate_ends(*pair) for name, pair in outer.items()}
    calibration = calibrate_ranges(n, [len(found) - 1 for found in ends.values()], target)
    warn_of_one_record(target, n, stacklevel=3)
    guarantee = unless_seeded(target, not randomness.is_secret)
    entry = charge(account, guarantee, calibration.events, f"bounds of {listed(outer)}")
    parts = source.over_parts(list(outer), partial(_slots, variables, ends))
    slots = {name: np.sum([part[name] for part in parts], axis=0) for name in outer}
    ranges = {
        name: choose_range(slots[name], ends[name], calibration, randomness) for name in outer
    }
    return SuggestedBounds(ranges, outer, calibration, guarantee, entry)


def _require_no_text(variables: Mapping[str, Variable]) -> None:
    """Refuse columns whose type is text, before anything is paid; looks at types only.

    A column of objects may hold numbers, and whether it does only its values tell.
    """
    for name, variable in variables.items():
        if variable.content == "strings":
            raise SchemaError(
                f"bounds[{name!r}]: the column {name!r} is text, which has no range, so that "
                "nothing was spent; levels_from releases its levels. Pass it as numbers if it "
                "spells numbers."
            )


def _slots(
    variables: Mapping[str, Variable], ends: Mapping[str, FloatArray], batch: Batch
) -> dict[str, IntArray]:
    """Count the values of some rows between the candidates of their columns."""
    found = {}
    with np.errstate(all="ignore"):  # a warning about an overflow would be a fact about the data
        for name, variable in variables.items():
            values, valid = read_variable(variable, batch[name])
            found[name] = slots_of(np.asarray(values[valid], dtype=np.float64), ends[name])
    return found


@suggests_arguments
def levels_from(
    data: Any,
    column: str,
    eps: float | Guarantee,
    delta: float = 0.0,
    *,
    ledger: AnyLedger | None = None,
    seed: int | None = None,
) -> ReleasedLevels:
    """Release the levels of a column that enough records have.

    Parameters
    ----------
    data
        A frame, a mapping of columns, an array, or a Dask frame, as for `dplr`.
    column : str
        The name of a column of texts, booleans, numbers or categories.
    eps : float or guarantee
        Price; ``eps=ApproxDP(0.1, 1e-8)`` is the same as ``eps=0.1, delta=1e-8``.
    delta : float
        The chance, at most, that a level is told which only one record has; far below 1/n. It
        cannot be 0.
    ledger : Ledger or path, optional
        Account to charge before the data is read, as is that of an open block.
    seed : int, optional
        Repeats the draws, for tests and teaching. Voids the guarantee.

    Returns
    -------
    ReleasedLevels
        A mapping that goes into ``levels=`` as it is, or with others. Its levels are in increasing
        order, whatever the order of the records.

    Raises
    ------
    ArgumentError, GuaranteeError, SchemaError
        One sentence each, on public facts only.

    Notes
    -----
    **Privacy.** *Covered*: the levels, by ``guarantee``; a rare level is not released, and in a
    fit its records count as rows of zeros. *Neighbours*: datasets of the same n that differ in
    one record. *Assumed public*: n, names, types and the price. *Not covered*: time and memory.

    Numbers and booleans that are equal are one level; in a column of objects True is the number 1.
    """
    target = _read_price(eps, delta)
    if not isinstance(target, ApproxDP):
        raise GuaranteeError(
            f"delta={show(delta)}: levels_from takes an epsilon and a delta above 0, because a "
            "level that one record alone has cannot be told without it, so that under pure privacy "
            "no level could be."
        )
    source = _read_table(data)
    names = list(source.batch.names)
    if column not in names:
        raise SchemaError(
            f"column={show(column)}: it is not a column of the data, which has {listed(names)}"
            f"{or_meant(column, names)}"
        )
    describe_variables(source.batch, [column], Schema())
    account, randomness = read_account(ledger), _randomness(seed)
    n, calibration = len(source), calibrate_levels(target)
    require_below_one_record(target, n)
    warn_of_large_delta(target, n, stacklevel=3)
    guarantee = unless_seeded(target, not randomness.is_secret)
    entry = charge(account, guarantee, (), f"levels of {column!r}")
    counts: Counter[Any] = Counter()
    for part in source.over_parts([column], partial(_level_counts, column)):
        counts.update(part)
    ordered = sorted(counts, key=lambda level: (isinstance(level, str), level))
    found = tuple(level for level in ordered if calibration.releases(counts[level], randomness))
    return ReleasedLevels(column, found, n, calibration, guarantee, entry)


def _level_counts(column: str, batch: Batch) -> Counter[Any]:
    """Count the levels of some rows; how a level is spelled depends on its value alone."""
    values, valid = read_variable(Variable(column, "text"), batch[column])
    has_truths = pd.api.types.is_bool_dtype(batch.column(column).dtype)
    return Counter(
        _spelled(value, has_truths)
        for value in np.asarray(values)[valid].tolist()
        if not isinstance(value, float) or math.isfinite(value)
    )


def _spelled(value: Any, has_truths: bool) -> Any:
    """Return one of the values that are equal to this one."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole or (isinstance(value, bool) and not has_truths) else value


def _read_price(eps: Any, delta: Any) -> Promise:
    """Read a price; there is no suggestion without privacy, which would be a value of the data."""
    target = read_target(eps, delta, plain=None)
    assert isinstance(target, Promise)
    return target


def _read_table(data: Any) -> FrameData:
    """Read named columns of any kind, of at least one record."""
    if sparse.issparse(data):
        raise SchemaError(
            f"data of type {type(data).__name__}: a sparse matrix has no names; data takes a data "
            "frame, a mapping of columns or an array."
        )
    return read_data(_NOT_PARSED, data, None)


def _randomness(seed: Any) -> Randomness:
    replayed = read_seed(seed, "choices", "release", stacklevel=5)
    return SystemRandomness() if replayed is None else SeededRandomness(replayed)
