"""Made-up columns whose logistic coefficients are known, and frames of them.

Every column is a function of a standard normal number that may be correlated with that of the
column before it, and the labels follow the logistic model, so its coefficients are known in the
units of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from privatelr.types import FloatArray

_MADE_UP = 100_000
"""Records that the intercept is balanced on."""


@dataclass(frozen=True, slots=True)
class Column:
    """One made-up column.

    Attributes
    ----------
    values : callable
        Takes standard normal numbers ``(n,)``; for a factor it returns positions of levels.
    effect : tuple of float
        The coefficient, in standard deviations of a numeric column; one for each level of a factor
        but the first.
    bounds, levels : tuple
        One of both.
    sd : float
        A typical deviation of a numeric column.
    link : float
        Correlation of its normal numbers with those of the column before it.
    """

    name: str
    values: Callable[[FloatArray], Any]
    effect: tuple[float, ...]
    bounds: tuple[float, float] = (0.0, 0.0)
    levels: tuple[str, ...] = ()
    sd: float = 1.0
    link: float = 0.0

    @property
    def coefs(self) -> list[float]:
        return [effect / self.sd for effect in self.effect]


def normal(name: str, mean: float, sd: float, effect: float, link: float, **known: Any) -> Column:
    """A normal column, by default with bounds four deviations from its mean."""
    usual = {"bounds": (mean - 4 * sd, mean + 4 * sd)}
    return Column(name, partial(_shifted, mean, sd), (effect,), sd=sd, link=link, **usual | known)


def log_normal(
    name: str, median: float, spread: float, top: float, effect: float, link: float
) -> Column:
    """A column such as an income: most values are small beside its upper bound."""
    sd = median * np.exp(spread**2 / 2) * np.sqrt(np.expm1(spread**2))
    values = partial(_exponential, median, spread)
    return Column(name, values, (effect,), (0.0, top), sd=sd, link=link)


def waiting(name: str, start: float, mean: float, top: float, effect: float, link: float) -> Column:
    """An exponential column above its lower bound, with this mean above it."""
    values = partial(_waited, start, mean)
    return Column(name, values, (effect,), (start, top), sd=mean, link=link)


def uniform(name: str, low: float, high: float, effect: float, link: float) -> Column:
    """A column that fills its bounds."""
    sd = (high - low) / np.sqrt(12)
    return Column(name, partial(_flat, low, high), (effect,), (low, high), sd=sd, link=link)


def factor(name: str, effect: tuple[float, ...], link: float = 0.0, **shares: float) -> Column:
    """A factor of levels with shares, whose first level takes the rest."""
    names, given = tuple(shares), tuple(shares.values())
    values = partial(_positions, np.cumsum(given)[:-1])
    return Column(name, values, effect, levels=names, link=link)


def _shifted(mean: float, sd: float, z: FloatArray) -> FloatArray:
    return mean + sd * z


def _exponential(median: float, spread: float, z: FloatArray) -> FloatArray:
    return np.asarray(median * np.exp(spread * z))


def _waited(start: float, mean: float, z: FloatArray) -> FloatArray:
    return np.asarray(start - mean * special.log_ndtr(-z))


def _flat(low: float, high: float, z: FloatArray) -> FloatArray:
    return np.asarray(low + (high - low) * special.ndtr(z))


def _positions(stops: FloatArray, z: FloatArray) -> Any:
    return np.searchsorted(stops, special.ndtr(z), side="right")


class Product(NamedTuple):
    """A number whose coefficient is another at each level of a factor but the first."""

    number: str
    factor: str
    coefs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Columns, the share of positive labels, and the column without an effect."""

    columns: tuple[Column, ...]
    positive: float
    null: str | None = None
    intercept: float = field(default=0.0, compare=False)
    products: tuple[Product, ...] = ()

    @property
    def numbers(self) -> list[Column]:
        return [column for column in self.columns if not column.levels]

    @property
    def factors(self) -> list[Column]:
        return [column for column in self.columns if column.levels]

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        return {column.name: column.bounds for column in self.numbers}

    @property
    def levels(self) -> dict[str, list[Any]]:
        return {column.name: list(column.levels) for column in self.factors}

    @property
    def coefs(self) -> list[float]:
        ordered = [*self.numbers, *self.factors]
        coefs = [self.intercept, *(coef for column in ordered for coef in column.coefs)]
        return [*coefs, *(coef for product in self.products for coef in product.coefs)]

    def covariates(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        """Return columns, numbers within their bounds, so that a fit clips nothing."""
        z, frame = np.zeros(n), {}
        for column in self.columns:
            z = column.link * z + np.sqrt(1 - column.link**2) * rng.standard_normal(n)
            values = column.values(z)
            if column.levels:
                dtype = pd.CategoricalDtype(list(column.levels))
                frame[column.name] = pd.Categorical.from_codes(values, dtype=dtype)
            else:
                frame[column.name] = np.clip(values, *column.bounds)
        return pd.DataFrame(frame)

    def probability(self, frame: pd.DataFrame) -> FloatArray:
        """Return the share of positive labels of each record."""
        x, _ = design(frame, self.bounds, self.levels, self.products)
        return np.asarray(special.expit(x @ np.array(self.coefs)))

    def sample(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        frame = self.covariates(n, rng)
        return frame.assign(y=rng.random(n) < self.probability(frame))


def balanced(recipe: Recipe) -> Recipe:
    """The recipe with the intercept that gives its share of positive labels, by bisection."""
    frame = recipe.covariates(_MADE_UP, np.random.default_rng(0))
    link = special.logit(recipe.probability(frame))
    low, high = -50.0, 50.0
    for _ in range(40):
        middle = (low + high) / 2
        is_low = special.expit(link + middle).mean() < recipe.positive
        low, high = (middle, high) if is_low else (low, middle)
    return replace(recipe, intercept=high)


def design(
    frame: pd.DataFrame,
    bounds: Mapping[str, tuple[float, float]],
    levels: Mapping[str, list[Any]],
    products: Sequence[Product] = (),
) -> tuple[FloatArray, list[str]]:
    """Rows ``(n, d)`` with a constant, in treatment coding, and their terms."""
    columns, terms = [np.ones(len(frame))], ["(Intercept)"]
    for name in bounds:
        columns.append(frame[name].to_numpy(dtype=np.float64))
        terms.append(name)
    for name, found in levels.items():
        values = frame[name].to_numpy()
        columns += [(values == level).astype(np.float64) for level in found[1:]]
        terms += [f"{name}[T.{level}]" for level in found[1:]]
    for number, name, _ in products:
        places = [terms.index(f"{name}[T.{level}]") for level in levels[name][1:]]
        columns += [columns[place] * columns[terms.index(number)] for place in places]
        terms += [f"{number}:{terms[place]}" for place in places]
    return np.column_stack(columns), terms
