"""What is public about the data: bounds, levels, and the length of a row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import pandas as pd

from privatelr.errors import SchemaError, require_number, show
from privatelr.formula import Interval

BoundsLike = Mapping[str, Sequence[float]]
LevelsLike = Mapping[str, Iterable[Hashable]]


LENGTHS = (1e-9, 1e9)
"""Least and greatest length of a row that can be declared; within them no formula overflows."""
FARTHEST, NEAREST = 1e100, 1e-12
"""Largest size of an end of a declared interval, and its least width relative to that size."""


@dataclass(frozen=True, slots=True)
class Payment:
    """What was paid for declarations, apart from the price of a fit that uses them.

    Payments are equal if they are for one release, by its identifier, also if one of them was read
    from a file. Declarations that were released twice were paid for twice, whatever they are.

    Attributes
    ----------
    kind : {"bounds", "levels"}
    columns : tuple of str
        All columns that were released together, whichever of them are used.
    n : int
        Number of records, or of persons.
    guarantee : Guarantee
    identifier : str
        Drawn when they were released, see `draw_identifier`.
    """

    kind: Literal["bounds", "levels"]
    columns: tuple[str, ...]
    n: int
    guarantee: Any
    identifier: str


def draw_identifier() -> str:
    """Draw 32 hexadecimal digits that tell a release from all others; they hold nothing of data."""
    return uuid4().hex


class PaidFor(tuple[Any, ...]):
    """A range, or levels, that remember what was paid for them when mappings are merged.

    Slices remember it, too, such as levels in reverse; a copy to a list or a tuple does not.
    """

    payment: Payment

    @classmethod
    def by(cls, payment: Payment, values: Iterable[Any]) -> PaidFor:
        """Return values that were released for this payment."""
        found = cls(values)
        found.payment = payment
        return found

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return PaidFor.by(self.payment, found) if isinstance(place, slice) else found


@dataclass(frozen=True, slots=True)
class Schema:
    """Public facts that the analyst declares; they are never read off the data.

    Attributes
    ----------
    bounds : mapping
        Maps a variable to ``(lo, hi)`` in its own units; values outside are clipped.
    levels : mapping
        Maps a variable to its levels, reference level first.
    row_norm : float or None
        Largest Euclidean length, without the intercept: of the columns without bounds together
        or, if all columns have bounds or none has, of all covariates.
    intercept_scale : float or None
        The constant in the intercept column of the design; None for the usual one.
    paid : mapping
        Maps variables whose declaration was paid for to what was paid.
    """

    bounds: Mapping[str, Interval] = field(default_factory=dict)
    levels: Mapping[str, tuple[Hashable, ...]] = field(default_factory=dict)
    row_norm: float | None = None
    intercept_scale: float | None = None
    paid: Mapping[str, Payment] = field(default_factory=dict)

    def payments(self, names: Iterable[str]) -> tuple[Payment, ...]:
        """Return what was paid for the declarations of these variables, each payment once."""
        return tuple(dict.fromkeys(self.paid[name] for name in names if name in self.paid))

    @property
    def constant(self) -> float:
        """The constant in the intercept column of rows in scaled units."""
        return 0.5 if self.intercept_scale is None else self.intercept_scale


def declare_schema(
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float | None = None,
) -> Schema:
    """Check the declarations of the user and return them as a `Schema`.

    Raises
    ------
    SchemaError
        One sentence that names the argument, what it got and what it takes.
    """
    of_bounds = _items("bounds", bounds)
    declared_bounds = {name: _bounds(name, pair) for name, pair in of_bounds}
    of_levels = _items("levels", levels)
    declared_levels = {name: _levels(name, values) for name, values in of_levels}
    for name in declared_bounds:
        if name in declared_levels:
            raise SchemaError(
                f"{name!r} has both bounds and levels; a variable is numeric (bounds) or "
                "categorical (levels)."
            )
    if row_norm is not None:
        row_norm = _length("row_norm", row_norm)
    if intercept_scale is not None:
        intercept_scale = _length("intercept_scale", intercept_scale)
    paid = {
        name: declared.payment
        for name, declared in (*of_bounds, *of_levels)
        if hasattr(declared, "payment")
    }
    return Schema(declared_bounds, declared_levels, row_norm, intercept_scale, paid)


def _length(name: str, value: Any) -> float:
    smallest, largest = LENGTHS
    takes = f"a number from {smallest:g} to {largest:g}"
    return require_number(SchemaError, name, value, takes, at_least=smallest, at_most=largest)


def _items(argument: str, declared: Any) -> Iterable[tuple[str, Any]]:
    if declared is None:
        return ()
    example = '{"age": (18, 90)}' if argument == "bounds" else '{"smoker": ["no", "yes"]}'
    if not isinstance(declared, Mapping):
        raise SchemaError(
            f"{argument}={show(declared)}: {argument} takes a dict such as {example}."
        )
    return [(str(name), value) for name, value in declared.items()]


def _bounds(name: str, pair: Any) -> Interval:
    takes = "two finite numbers (lo, hi) with lo < hi"
    argument = f"bounds[{name!r}]"
    if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
        raise SchemaError(f"{argument}={show(pair)}: a bound takes {takes}.")
    if any(isinstance(end, str) or hasattr(end, "year") for end in pair):
        takes += "; for dates count days, as in (x - pandas.Timestamp('2020-01-01')).dt.days"
    low, high = (require_number(SchemaError, argument, end, takes) for end in pair)
    if not low < high:
        raise SchemaError(f"{argument}={show(tuple(pair))}: a bound takes {takes}.")
    size = max(abs(low), abs(high))
    if not (size <= FARTHEST and high - low > max(size, NEAREST) * NEAREST):
        raise SchemaError(
            f"{argument}={show(tuple(pair))}: a bound takes lo < hi of at most {FARTHEST:g}, "
            f"apart by {NEAREST:g} of their size and by {NEAREST**2:g} at least."
        )
    return (low, high)


def _levels(name: str, values: Any) -> tuple[Hashable, ...]:
    takes = "a list of two or more different texts, numbers or booleans, reference level first"
    # a Series is refused whatever it holds, because it is a column of the data, not its levels;
    # a set is refused because it has no order, which would leave the reference level to chance
    column = isinstance(values, str | bytes | Mapping | Set | pd.Series | pd.DataFrame)
    declared = isinstance(values, Iterable) and not column
    listed = [v.item() if isinstance(v, np.generic) else v for v in values] if declared else []
    if len(listed) < 2 or not all(map(_is_plain, listed)) or len(set(listed)) != len(listed):
        raise SchemaError(f"levels[{name!r}]={show(values)}: levels takes {takes}.")
    require_levels(name, listed)
    return tuple(listed)


def _is_plain(level: Any) -> bool:
    """Whether it is a finite number, a boolean, or a text without half of a character."""
    if isinstance(level, str):
        return not any("\ud800" <= character <= "\udfff" for character in level)
    return isinstance(level, int) or (isinstance(level, float) and math.isfinite(level))


def require_levels(name: str, levels: Sequence[Any]) -> None:
    """Refuse levels that no file can hold, and those that are written alike."""
    for level in levels:
        if not _is_plain(level):
            kind = show(level) if isinstance(level, float | str) else type(level).__name__
            raise SchemaError(
                f"column {name!r}: a level is a text, a finite number or a boolean, and not "
                f"{kind}; write them as texts, as in data[{name!r}].cat.rename_categories(str)."
            )
    for text, times in Counter(map(str, levels)).items():
        if times > 1:
            raise SchemaError(
                f"column {name!r}: {times} of its levels are written {text!r}, so that no "
                "coefficient could be told from another; rename them."
            )
