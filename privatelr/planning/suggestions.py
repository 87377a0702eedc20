"""`suggest_bounds` and `levels_from`: declarations that are paid for, where none are known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.arguments import suggests_arguments
from privatelr.call_data import FrameData, read_data
from privatelr.cells import number
from privatelr.design import Variable, describe_variables, read_variable, with_shares
from privatelr.errors import ArgumentError, SchemaError, listed, or_meant, show
from privatelr.formula import Interval, Person
from privatelr.mechanisms import (
    read_target,
    require_below_one_record,
    warn_of_large_delta,
    warn_of_one_record,
)
from privatelr.mechanisms.level_selection import (
    calibrate_levels,
    order_of_level,
    read_target_of_levels,
    require_possible,
)
from privatelr.mechanisms.range_selection import (
    calibrate_ranges,
    candidate_ends,
    choose_range,
    slots_of,
    unit_of_person,
)
from privatelr.mechanisms.request import read_account, read_seed
from privatelr.privacy import Guarantee, Promise, neighbours_about
from privatelr.privacy.accounting import AnyLedger, charged_if_unread
from privatelr.privacy.noise import SeededRandomness, SystemRandomness
from privatelr.results.answers.scored_records import Price
from privatelr.results.declarations import ReleasedLevels, SuggestedBounds
from privatelr.sources import Batch, BoundsLike, Schema, declare_schema, is_dask, is_stream
from privatelr.types import FloatArray

_NOT_PARSED = "~"
"""It stands where a fit has its formula."""


@suggests_arguments
def suggest_bounds(
    data: Any,
    bounds: BoundsLike,
    eps: float | Guarantee,
    delta: float = 0.0,
    *,
    person: str | None = None,
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
    person : str, optional
        The name of a column that tells persons apart, all of whose records are protected together.
        A record counts one over the number of records of its person, and the number of persons is
        public in place of that of records. No Dask frame then.
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
    differ in one record, or of as many persons that differ in the records of one. *Assumed public*:
    n (or the number of persons), names, types, the outer ranges and the price. *Not covered*: time
    and memory.

    Candidates for the ends are public, see `candidate_ends`, and are chosen by the exponential
    mechanism, see `scores_of_low`. A missing value, an infinite one, and one that is not a number
    lies beyond neither end.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema, suggest_bounds
    >>> votes, levels = load_dataset("anes96"), load_schema("anes96")["levels"]
    >>> suggested = suggest_bounds(votes, {"age": (0, 150)}, eps=0.5)
    >>> fit = dplr("vote ~ age", votes, eps=0.5, bounds=suggested, levels=levels)
    >>> print(suggested.guarantee, list(suggested))
    epsilon = 0.5 (pure) ['age']
    """
    target, outer = read_price(eps, delta, person), read_outer(bounds)
    source = _read_table(data)
    variables = describe_variables(source.batch, outer, Schema(outer))
    _require_numbers(source.batch, outer)
    if person is not None:
        source = _read_persons(data, source, person)
    price, n = _read_count(source, target, person, ledger, seed)
    ends = {name: candidate_ends(*pair) for name, pair in outer.items()}
    calibration = calibrate_ranges(n, [len(found) - 1 for found in ends.values()], target)
    warn_of_one_record(target, n, stacklevel=3)
    entry = price.pay(calibration.events, f"bounds of {listed(outer)}")
    if source.batch.shares is None:
        parts = source.over_parts(list(outer), partial(_slots, variables, ends))
        slots = {name: np.sum([part[name] for part in parts], axis=0) for name in outer}
    else:
        unit = unit_of_person(n)
        units = np.floor(source.batch.shares / unit)
        counted = _slots(variables, ends, source.batch, units)
        slots = {name: unit * count for name, count in counted.items()}
    ranges = {
        name: choose_range(slots[name], ends[name], calibration, price.randomness) for name in outer
    }
    return SuggestedBounds(ranges, outer, calibration, price.guarantee, entry)


def _require_numbers(batch: Batch, names: Iterable[str]) -> None:
    """Refuse columns whose type is truth, before anything is paid; looks at types only."""
    for name in names:
        if pd.api.types.is_bool_dtype(batch.column(name).dtype):
            raise SchemaError(
                f"bounds[{name!r}]: the column {name!r} is true or false, which needs no bounds in "
                "a fit, so that nothing was spent; leave it out."
            )


def _slots(
    variables: Mapping[str, Variable],
    ends: Mapping[str, FloatArray],
    batch: Batch,
    units: FloatArray | None = None,
) -> dict[str, FloatArray]:
    """Count the values of some rows between the candidates of their columns."""
    found = {}
    with np.errstate(all="ignore"):  # a warning about an overflow would be a fact about the data
        for name, variable in variables.items():
            values, valid = read_variable(variable, batch[name])
            own = None if units is None else units[valid]
            found[name] = slots_of(np.asarray(values[valid], dtype=np.float64), ends[name], own)
    return found


@suggests_arguments
def levels_from(
    data: Any,
    column: str,
    eps: float | Guarantee,
    delta: float = 0.0,
    *,
    person: str | None = None,
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
    eps : float or ApproxDP
        Price; ``eps=ApproxDP(0.1, 1e-8)`` is the same as ``eps=0.1, delta=1e-8``. A rho is refused:
        it does not allow to tell what is never told of a neighbour.
    delta : float
        The chance, at most, that a level is told which only one record has; far below 1/n. It
        cannot be 0.
    person : str, optional
        The name of a column that tells persons apart, all of whose records are protected together.
        A person counts for one level, that of most of the records, and among equals for the least
        one. No Dask frame then.
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
        One sentence each, on public facts only; also if, with n and the price, a level of all
        records would be told less often than not.

    Notes
    -----
    **Privacy.** *Covered*: the levels, by ``guarantee``; a rare level is not released, and in a
    fit its records count as rows of zeros. *Neighbours*: datasets of the same n that differ in
    one record, or of as many persons that differ in the records of one. *Assumed public*: n (or the
    number of persons), names, types and the price. *Not covered*: time and memory.

    Numbers are compared as doubles, and those that are equal are one level. In a column of objects
    True is the number 1.

    Examples
    --------
    >>> from privatelr import levels_from, load_dataset
    >>> levels = levels_from(load_dataset("anes96"), "vote", eps=1.0, delta=1e-6)
    >>> list(levels["vote"])
    ['Clinton', 'Dole']
    """
    target = read_target_of_levels(read_price(eps, delta, person))
    source = _read_table(data)
    _require_column("column", column, source.batch)
    describe_variables(source.batch, [column], Schema())
    if person is not None:
        source = _read_persons(data, source, person)
    calibration = calibrate_levels(target)
    price, n = _read_count(source, target, person, ledger, seed)
    require_below_one_record(target, n)
    require_possible(n, calibration)
    warn_of_large_delta(target, n, stacklevel=3)
    entry = price.pay(calibration.events, f"levels of {column!r}")
    has_truths = pd.api.types.is_bool_dtype(source.batch.column(column).dtype)
    counts: Counter[Any] = Counter()
    if source.owners is not None:
        counts = _counts_of_persons(column, source, has_truths=has_truths)
    else:
        count_levels = partial(_level_counts, column, has_truths=has_truths)
        counts = sum(source.over_parts([column], count_levels), counts)
    ordered = sorted(counts, key=order_of_level)
    source_of_noise = price.randomness
    found = tuple(one for one in ordered if calibration.releases(counts[one], source_of_noise))
    return ReleasedLevels(column, found, n, calibration, price.guarantee, entry)


def _level_counts(column: str, batch: Batch, *, has_truths: bool = False) -> Counter[Any]:
    """Count the levels of some rows."""
    levels = _levels_of(column, batch, has_truths=has_truths)
    return Counter(level for level in levels if level is not None)


def _counts_of_persons(column: str, owned: FrameData, *, has_truths: bool = False) -> Counter[Any]:
    """Count the persons by one level of each, which is a function of that person's records."""
    assert owned.owners is not None
    votes: dict[int, Counter[Any]] = {}
    levels = _levels_of(column, owned.batch, has_truths=has_truths)
    for owner, level in zip(owned.owners.tolist(), levels, strict=True):
        if level is not None:
            votes.setdefault(owner, Counter())[level] += 1
    return Counter(
        min(own, key=lambda level: (-own[level], order_of_level(level))) for own in votes.values()
    )


def _levels_of(column: str, batch: Batch, *, has_truths: bool) -> list[Any]:
    """Return the level of each row ``(n,)``, None where there is none.

    `has_truths` says whether the column is declared to hold booleans: the type of a partition may
    depend on a missing value.
    """
    values, valid = read_variable(Variable(column, "text"), batch[column])
    return [
        _spelled(value, has_truths) if is_valid else None
        for value, is_valid in zip(np.asarray(values).tolist(), valid.tolist(), strict=True)
    ]


def _spelled(value: Any, has_truths: bool) -> Any:
    """Return the one level of all equal values; None for a number that is not finite.

    Numbers are compared as doubles, because pandas makes doubles of whole numbers with a gap.
    """
    if isinstance(value, str):
        return value
    double = number(value)
    if has_truths and double in (0, 1):
        return bool(double)
    if double.is_integer() and abs(double) < 2**53:
        return int(double)
    return double if math.isfinite(double) else None


def _read_persons(data: Any, source: FrameData, person: Any) -> FrameData:
    """Tell the persons of a table apart; their number is public, and that of records is not."""
    if is_dask(data) or is_stream(data):
        raise ArgumentError(
            "data: beside person, suggestions take a table in memory, as data.compute() is of a "
            "Dask collection."
        )
    _require_column("person", person, source.batch)
    m, owners, batch = with_shares(source.batch, Person(person, 1))
    return replace(source, batch=batch, persons=m, owners=owners)


def _require_column(argument: str, name: Any, batch: Batch) -> None:
    if name not in batch.names:
        raise SchemaError(
            f"{argument}={show(name)}: it is not a column of the data, which has "
            f"{listed(batch.names)}{or_meant(name, batch.names)}"
        )


def read_outer(bounds: BoundsLike) -> dict[str, Interval]:
    """Read the outer ranges of columns; raises `SchemaError`, also if there is none."""
    outer = dict(declare_schema(bounds).bounds)
    if not outer:
        raise SchemaError('bounds: takes an outer range for each column, as in {"age": (0, 150)}.')
    return outer


def read_price(eps: Any, delta: Any, person: Any) -> Promise:
    """Read a price; there is no suggestion without privacy, which would be a value of the data."""
    target = read_target(eps, delta, plain=None, neighbours=neighbours_about(person))
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


def _read_count(
    source: FrameData, target: Promise, person: str | None, ledger: Any, seed: Any
) -> tuple[Price, int]:
    """The price of a suggestion, and the number of records, or of persons."""
    account, replayed = read_account(ledger), read_seed(seed, "choices", "release", stacklevel=5)
    randomness = SystemRandomness() if replayed is None else SeededRandomness(replayed)
    price = Price(target, account, randomness, person)
    with charged_if_unread(account, price.guarantee, is_read=source.is_in_parts):
        return price, len(source)
