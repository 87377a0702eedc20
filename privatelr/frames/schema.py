"""What is public about the data: bounds, levels, and the length of a row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privatelr.errors import SchemaError, require_number

if TYPE_CHECKING:
    from privatelr.frames.functions import Interval

BoundsLike = Mapping[str, Sequence[float]]
LevelsLike = Mapping[str, Iterable[Hashable]]


@dataclass(frozen=True, slots=True)
class Schema:
    """Declared by the analyst, never read off the data.

    Attributes
    ----------
    bounds : mapping
        Variable to ``(lo, hi)`` in its own units; values beyond are clipped.
    levels : mapping
        Variable to its levels, reference level first.
    row_norm : float or None
        Largest Euclidean length of the covariates of a row, the intercept left out.
    intercept_scale : float
        The constant in the intercept column of the design (privacy.md 2.2).
    """

    bounds: Mapping[str, Interval] = field(default_factory=dict)
    levels: Mapping[str, tuple[Hashable, ...]] = field(default_factory=dict)
    row_norm: float | None = None
    intercept_scale: float = 0.5


def declare_schema(
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float = 0.5,
) -> Schema:
    """Check what the user declares and return it as a `Schema`.

    Raises
    ------
    SchemaError
        One sentence that names the argument, what it got and what it takes.
    """
    declared_bounds = {name: _bounds(name, pair) for name, pair in _items("bounds", bounds)}
    declared_levels = {name: _levels(name, values) for name, values in _items("levels", levels)}
    for name in declared_bounds:
        if name in declared_levels:
            raise SchemaError(
                f"{name!r} has both bounds and levels; a variable is numeric (bounds) or "
                "categorical (levels)."
            )
    if row_norm is not None:
        row_norm = require_number(SchemaError, "row_norm", row_norm, "a number above 0", above=0)
    scale = require_number(
        SchemaError, "intercept_scale", intercept_scale, "a number above 0", above=0
    )
    return Schema(declared_bounds, declared_levels, row_norm, scale)


def _items(argument: str, declared: Any) -> Iterable[tuple[str, Any]]:
    if declared is None:
        return ()
    example = '{"age": (18, 90)}' if argument == "bounds" else '{"smoker": ["no", "yes"]}'
    if not isinstance(declared, Mapping):
        raise SchemaError(f"{argument}={declared!r}: {argument} takes a dict such as {example}.")
    return declared.items()


def _bounds(name: str, pair: Any) -> Interval:
    takes = "two finite numbers (lo, hi) with lo < hi"
    ends = list(pair) if isinstance(pair, Iterable) and not isinstance(pair, str | bytes) else []
    if len(ends) != 2:
        raise SchemaError(f"bounds[{name!r}]={pair!r}: a bound takes {takes}.")
    low, high = (require_number(SchemaError, f"bounds[{name!r}]", end, takes) for end in ends)
    if low >= high:
        raise SchemaError(f"bounds[{name!r}]={pair!r}: a bound takes {takes}.")
    return (low, high)


def _levels(name: str, values: Any) -> tuple[Hashable, ...]:
    takes = "a list of two or more different values, reference level first"
    listed = (
        [] if isinstance(values, str | bytes) or not isinstance(values, Iterable) else list(values)
    )
    hashable = all(
        isinstance(value, Hashable) and value is not None and value == value for value in listed
    )
    if len(listed) < 2 or not hashable or len(set(listed)) != len(listed):
        raise SchemaError(f"levels[{name!r}]={values!r}: levels takes {takes}.")
    return tuple(value.item() if hasattr(value, "item") else value for value in listed)
