"""How the columns of a design are made, worked out once for all pieces of a table.

Most columns of a long table are columns of the design as they are, but for their units. They are
read side by side to where the design is made, and clipped all at once, if they have to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privatelr.design.variables import as_numbers, stand_in
from privatelr.sources import RowSlice, Tally, Unread, beyond
from privatelr.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from privatelr.design.coding import Factor, TermCoding
    from privatelr.design.terms import Columns
    from privatelr.design.variables import Variable


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Neighbouring columns of a design, each of them a column of the data.

    Attributes
    ----------
    start : int
        Position of the first in the design.
    names : tuple of str
        Columns of the data.
    low, high, instead : ndarray of shape (k, 1)
        Declared bounds, and what stands for a value that is not finite.
    """

    start: int
    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    instead: FloatArray

    @property
    def stop(self) -> int:
        return self.start + len(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """How the columns of a plan are made, worked out once.

    Attributes
    ----------
    straight : tuple of Stretch
        Columns that are read to where they belong.
    recipes : tuple of TermCoding
        The other terms.
    factors : tuple of int
        The factors of those.
    centre, scale : ndarray of shape (d,) or None
        The map of columns whose parent is the intercept, or none; None where it changes nothing.
    children : tuple of int
        Columns whose parent is another.
    """

    straight: tuple[Stretch, ...]
    recipes: tuple[TermCoding, ...]
    factors: tuple[int, ...]
    centre: FloatArray | None
    scale: FloatArray | None
    children: tuple[int, ...]


def plan_steps(
    columns: Columns,
    factors: Sequence[Factor],
    variables: Mapping[str, Variable],
    kept: Sequence[str],
) -> Steps:
    """How to make columns; those of the data that are `kept` stay in their units."""
    first = int(columns.has_intercept)
    straight, recipes = _plan_straight(columns.recipes, factors, variables, kept)
    used = {index for recipe in recipes for index in (*recipe.numeric, *recipe.categorical)}
    # parents have neither centre nor scale, so the map can be made in place
    centre = np.where(columns.parent == 0, columns.centre, 0.0) * first
    return Steps(
        straight,
        recipes,
        tuple(sorted(used)),
        centre if centre.any() else None,
        columns.scale if (columns.scale != 1).any() else None,
        tuple(np.flatnonzero(columns.parent >= first).tolist()),
    )


def _plan_straight(
    recipes: Sequence[TermCoding],
    factors: Sequence[Factor],
    variables: Mapping[str, Variable],
    kept: Sequence[str],
) -> tuple[tuple[Stretch, ...], tuple[TermCoding, ...]]:
    """Stretches of columns that are read straight into the design, and the other terms."""
    places: dict[int, str] = {}
    used = set(kept)
    others: list[TermCoding] = []
    for recipe in recipes:
        name = _column(recipe, factors)
        if name is None or name in used or variables[name].kind != "numeric":
            others.append(recipe)
            continue
        used.add(name)
        places[recipe.start] = name
    runs: list[list[int]] = []
    for position in sorted(places):
        if runs and runs[-1][-1] == position - 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    found = (_stretch(run[0], [variables[places[column]] for column in run]) for run in runs)
    return tuple(found), tuple(others)


def _column(recipe: TermCoding, factors: Sequence[Factor]) -> str | None:
    """The column of the data that a term is, if it is one."""
    single = len(recipe.numeric) == 1 and not recipe.categorical
    if not single or recipe.stop - recipe.start != 1 or recipe.grid[0, 0] != 1.0:
        return None
    return factors[recipe.numeric[0]].expression.column


def _stretch(start: int, variables: Sequence[Variable]) -> Stretch:
    low, high, instead = (
        np.array(values, dtype=np.float64)[:, None]
        for values in (
            [variable.bounds[0] for variable in variables],
            [variable.bounds[1] for variable in variables],
            [stand_in(variable) for variable in variables],
        )
    )
    return Stretch(start, tuple(variable.name for variable in variables), low, high, instead)


def read_stretch(stretch: Stretch, piece: RowSlice, raw: FloatArray) -> BoolArray | np.bool_:
    """Read columns to their places in a raw design ``(n, d)``, as `read_variable` reads each.

    Returns
    -------
    bool or ndarray of shape (n,)
        The rows in which all of them are finite.
    """
    table = raw.T[stretch.start : stretch.stop]
    place = 0
    for part in piece.parts(stretch.names):
        lines = np.atleast_2d(as_numbers(part))
        # zeros lose their sign, which clipping may take from them or not
        np.add(lines, 0.0, out=table[place : place + len(lines)])
        place += len(lines)
    least, most = (
        reduction(table, axis=1, keepdims=True, initial=start)
        for reduction, start in ((np.minimum.reduce, np.inf), (np.maximum.reduce, -np.inf))
    )
    valid: BoolArray | np.bool_ = np.True_
    finite = np.isfinite(least) & np.isfinite(most)
    for index in np.flatnonzero(~finite):
        here = np.isfinite(table[index])
        table[index, ~here] = stretch.instead[index]
        valid = valid & here
        if piece.tally is not None:
            missing = len(here) - int(np.count_nonzero(here))
            piece.tally.add(stretch.names[index], Unread(missing=missing))
    within = finite & (stretch.low <= least) & (most <= stretch.high)
    if not within.all():
        if piece.tally is not None:
            _count_clipped(piece.tally, stretch, table, np.flatnonzero(~within))
        np.minimum(np.maximum(table, stretch.low, out=table), stretch.high, out=table)
    return valid


def _count_clipped(tally: Tally, stretch: Stretch, table: FloatArray, which: IntArray) -> None:
    for index in which:
        low, high = float(stretch.low[index, 0]), float(stretch.high[index, 0])
        tally.add(stretch.names[index], Unread(clipped=beyond(table[index], low, high)))


def to_units(raw: FloatArray, columns: Columns, steps: Steps) -> FloatArray:
    """Covariates ``(n, p)`` of a raw design ``(n, d)``, mapped to scaled units in its place."""
    if steps.centre is not None:
        raw -= steps.centre
    for child in steps.children:
        raw[:, child] -= raw[:, columns.parent[child]] * columns.centre[child]
    if steps.scale is not None:
        raw /= steps.scale
    return raw[:, int(columns.has_intercept) :]
