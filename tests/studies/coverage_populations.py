"""Populations whose logistic coefficients are known, for the study of `coverage`.

Made-up ones are lists of columns (`made_up_columns`). Published tables are populations, too:
records are drawn from them with replacement, and the truth is the fit to the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .made_up_columns import (
    Column,
    Product,
    Recipe,
    balanced,
    design,
    factor,
    log_normal,
    normal,
    uniform,
    waiting,
)
from .plain_logistic import PlainFit, plain_fit
from .scale_tables import TABLES, read_table
from .tables import data_home

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from privatelr.types import FloatArray

_RAREST, _FEWEST = 1e-3, 10
"""A factor of a table is kept if this share of its records, and so many, are of each class with
each level. Of samples that expect ten, one in 20,000 has none, and is separable."""
_COLLINEAR = 1e-6
"""Of the variance of a numeric column: what others must leave of it."""


TABLE_COLUMNS = {
    "adult": ("age", "education_num", "hours_per_week", "sex"),
    "bank": ("V0", "V5", "V11", "V12", "V2"),
    "cod_rna": ("energy", "length", "A1", "U1", "C1"),
    "spambase": ("V51", "V52", "V54", "V55", "V56"),
    "kddcup99": ("count", "serror_rate", "rerror_rate", "dst_host_count", "dst_host_srv_count"),
}
"""The columns of the models of some published tables, chosen before any fit; of others, all."""
RATIOS = (5, 20, 30, 40, 60, 250, 4200)
"""Half the width of bounds, over the deviation of a column that hardly varies within them."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """What a sample is drawn from.

    Attributes
    ----------
    sample : callable
        Takes a number of records and a generator, and returns a frame.
    bounds, levels : mapping
        What is public about its columns.
    truth : Series
        Coefficients of the logistic model in the units of the columns, by their terms.
    null : str or None
        The term whose coefficient is exactly 0, and all of whose effect is that of others.
    response : str
    """

    sample: Callable[[int, np.random.Generator], pd.DataFrame]
    bounds: Mapping[str, tuple[float, float]]
    levels: Mapping[str, list[Any]]
    truth: pd.Series[float]
    null: str | None = None
    response: str = "y"
    products: tuple[Product, ...] = ()

    @property
    def formula(self) -> str:
        names = [f"{number}:{factor}" for number, factor, _ in self.products]
        return f"{self.response} ~ {' + '.join(['.', *names])}"

    def fit_without_privacy(self, frame: pd.DataFrame) -> PlainFit:
        """Coefficients and standard errors in the order of `truth`."""
        x, _ = design(frame, self.bounds, self.levels, self.products)
        return plain_fit(x, frame[self.response].to_numpy(dtype=np.float64))


def effects(count: int) -> FloatArray:
    """Effects of both signs, of which the last are small; together about one deviation."""
    found = np.linspace(1.0, 0.3, count) * np.where(np.arange(count) % 3 == 2, -1, 1)
    return np.asarray(found / np.linalg.norm(found))


def normals(d: int, positive: float = 0.4, link: float = 0.5) -> Recipe:
    """Correlated normal columns in units of their own."""
    sds = [(1.0, 12.0, 0.5, 30.0)[j % 4] for j in range(d - 1)]
    strengths = [*effects(d - 2), 0.0]
    names = [*(f"x{j}" for j in range(1, d - 1)), "null"]
    columns = (
        normal(name, 5 * sd, sd, effect, link)
        for name, sd, effect in zip(names, sds, strengths, strict=True)
    )
    return Recipe(tuple(columns), positive, "null")


def skewed(d: int) -> Recipe:
    """Money within wide bounds, times of waiting, and a few normal columns."""
    makers: list[Callable[[str, float], Column]] = [
        lambda name, effect: log_normal(name, 30_000, 0.8, 1_000_000, effect, 0.3),
        lambda name, effect: waiting(name, 0.0, 6.0, 120.0, effect, 0.3),
        lambda name, effect: log_normal(name, 3_000, 1.2, 200_000, effect, 0.3),
        lambda name, effect: normal(name, 45, 12, effect, 0.3),
    ]
    columns = [makers[j % 4](f"x{j + 1}", effect) for j, effect in enumerate(effects(d - 2))]
    return Recipe((*columns, makers[0]("null", 0.0)), 0.3, "null")


def collinear_null(d: int) -> Recipe:
    """A column without effect that is correlated .8 with the one of the largest effect."""
    strengths = effects(d - 2)[::-1]
    columns = [normal(f"x{j + 1}", 45, 12, effect, 0.0) for j, effect in enumerate(strengths)]
    return Recipe((*columns, normal("null", 150, 30, 0.0, 0.8)), 0.4, "null")


def rare_levels(d: int) -> Recipe:
    """Factors of four levels, of which one has 2 % of the records, beside normal columns."""
    count = max(1, (d - 1) // 5)
    shares = {"a": 0.7, "b": 0.2, "c": 0.08, "d": 0.02}
    factors = [factor(f"f{j + 1}", (0.6, -0.5, 0.8), 0.2, **shares) for j in range(count)]
    strengths = effects(d - 2 - 3 * count)
    numbers = [normal(f"x{j + 1}", 45, 12, effect, 0.3) for j, effect in enumerate(strengths)]
    return Recipe((*factors, *numbers, normal("null", 5, 1, 0.0, 0.3)), 0.4, "null")


def uniforms(d: int) -> Recipe:
    """Columns that fill their bounds."""
    columns = [uniform(f"x{j + 1}", 0, 100, effect, 0.3) for j, effect in enumerate(effects(d - 2))]
    return Recipe((*columns, uniform("null", -5, 5, 0.0, 0.3)), 0.5, "null")


def thin(d: int) -> Recipe:
    """Normal columns, and one without effect that hardly varies within its bounds."""
    strengths = effects(d - 2)
    columns = [normal(f"x{j + 1}", 45, 12, effect, 0.3) for j, effect in enumerate(strengths)]
    return Recipe((*columns, normal("null", 5, 0.02, 0.0, 0.0, bounds=(0, 10))), 0.4, "null")


def hidden_confounder(d: int, ratio: float) -> Recipe:
    """A number with the largest effect, and one without effect that is correlated .6 with it.

    The deviation of the first is half the width of its bounds over `ratio`.
    """
    largest, *strengths = effects(d - 2)
    columns = [normal(f"x{j + 1}", 45, 12, effect, 0.3) for j, effect in enumerate(strengths)]
    hidden = normal("z", 0, 5 / ratio, largest, 0.3, bounds=(-5, 5))
    return Recipe((*columns, hidden, normal("null", 150, 30, 0.0, 0.6)), 0.4, "null")


def rarest_level(d: int) -> Recipe:
    """A factor with three records of a thousand at one of its levels, beside normal columns."""
    shares = {"a": 0.7, "b": 0.2, "c": 0.097, "d": 0.003}
    strengths = effects(d - 5)
    numbers = [normal(f"x{j + 1}", 45, 12, effect, 0.3) for j, effect in enumerate(strengths)]
    columns = (factor("f", (0.6, -0.5, 0.8), 0.2, **shares), *numbers)
    return Recipe((*columns, normal("null", 5, 1, 0.0, 0.3)), 0.4, "null")


def products(d: int) -> Recipe:
    """A number whose effect is another in each of three groups, beside normal columns."""
    strengths = [*effects(d - 6), 0.0] if d > 6 else [0.8]
    names = [*(f"x{j + 1}" for j in range(d - 6)), "null"] if d > 6 else ["x1"]
    numbers = [
        normal(name, 45, 12, effect, 0.3) for name, effect in zip(names, strengths, strict=True)
    ]
    groups = factor("f", (0.6, -0.5), 0.2, a=0.5, b=0.3, c=0.2)
    made = (Product("x1", "f", (0.4 / 12, -0.5 / 12)),)
    null = "null" if d > 6 else None
    return Recipe((groups, *numbers), 0.4, null, products=made)


def birthwt() -> Recipe:
    """Low birth weight: made up in the likeness of the table of 189 births."""
    columns = (
        normal("age", 23, 5, -0.15, 0.0, bounds=(14, 46)),
        normal("lwt", 130, 30, -0.45, 0.2, bounds=(80, 250)),
        factor("race", (1.2, 0.9), white=0.51, black=0.14, other=0.35),
        factor("smoke", (0.95,), no=0.61, yes=0.39),
        factor("ht", (1.8,), no=0.935, yes=0.065),
        factor("ui", (0.75,), no=0.85, yes=0.15),
    )
    return Recipe(columns, 0.31)


def pima() -> Recipe:
    """Diabetes: made up in the likeness of the table of 768 women."""
    columns = (
        waiting("age", 21, 12, 81, 0.15, 0.0),
        waiting("npreg", 0, 3.8, 17, 0.4, 0.5),
        normal("glucose", 121, 31, 1.1, 0.1, bounds=(40, 200)),
        normal("bp", 72, 12, -0.15, 0.2, bounds=(20, 125)),
        normal("bmi", 32, 7, 0.6, 0.3, bounds=(15, 70)),
        normal("skin", 29, 10, 0.0, 0.6, bounds=(5, 100)),
        log_normal("pedigree", 0.4, 0.6, 2.5, 0.3, 0.1),
    )
    return Recipe(columns, 0.35, "skin")


def burn() -> Recipe:
    """Death after a burn: made up in the likeness of the table of 1,000 patients."""
    columns = (
        uniform("age", 0, 90, 2.0, 0.0),
        log_normal("tbsa", 6, 1.2, 100, 1.8, 0.1),
        factor("inh_inj", (1.4,), 0.3, no=0.88, yes=0.12),
        factor("flame", (0.5,), 0.3, no=0.47, yes=0.53),
        factor("gender", (-0.2,), female=0.3, male=0.7),
        factor("race", (-0.6,), other=0.41, white=0.59),
    )
    return Recipe(columns, 0.15)


GENERATORS: dict[str, Callable[[int], Recipe]] = {
    "normal": normals,
    "skewed": skewed,
    "null": collinear_null,
    "levels": rare_levels,
    "imbalanced": partial(normals, positive=0.03),
    "uniform": uniforms,
    "thin": thin,
    "rarest": rarest_level,
    "products": products,
    **{f"hidden{ratio}": partial(hidden_confounder, ratio=ratio) for ratio in RATIOS},
}
"""By the number of coefficients, the intercept included."""
LIKENESSES: dict[str, tuple[int, Callable[[], Recipe]]] = {
    "birthwt": (189, birthwt),
    "pima": (768, pima),
    "burn": (1000, burn),
}
"""With the number of records of the table that each is like."""


# -- published tables ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Records of a table, drawn with replacement."""

    frame: pd.DataFrame

    def sample(self, n: int, rng: np.random.Generator) -> pd.DataFrame:
        return self.frame.take(rng.integers(len(self.frame), size=n)).reset_index(drop=True)


def table_population(name: str) -> Population:
    """A published table, without columns that make its fit separable or collinear."""
    table, home = TABLES[name], data_home()
    assert home is not None
    frame = read_table(name, home)
    chosen = TABLE_COLUMNS.get(name, tuple(frame))
    known = {column: ends for column, ends in table.bounds.items() if column in chosen}
    for column, (low, high) in known.items():
        frame[column] = frame[column].astype(np.float64).clip(low, high)
    enough = max(_FEWEST, _RAREST * len(frame))
    levels = {
        column: found
        for column, found in table.levels.items()
        if column in chosen and fewest_of_a_level(frame[column], frame[table.response]) >= enough
    }
    bounds = {column: known[column] for column in independent(frame[[*known]])}
    frame = frame[[*bounds, *levels, table.response]]
    x, terms = design(frame, bounds, levels)
    truth = plain_fit(x, frame[table.response].to_numpy(dtype=np.float64)).coef
    sample = Resampled(frame).sample
    return Population(
        sample, bounds, levels, pd.Series(truth, index=terms), response=table.response
    )


def fewest_of_a_level(values: pd.Series[Any], positive: pd.Series[Any]) -> int:
    """The smallest number of records of a class with a declared level."""
    return int(pd.crosstab(values, positive, dropna=False).to_numpy().min())


def independent(frame: pd.DataFrame) -> list[str]:
    """The numeric columns of which the ones before leave something."""
    kept: list[str] = []
    for name in frame:
        column = frame[name].to_numpy()
        others = frame[kept].to_numpy() - frame[kept].mean().to_numpy()
        units = others / others.std(axis=0)
        rest = column - column.mean() - units @ np.linalg.lstsq(units, column - column.mean())[0]
        if rest.var() > _COLLINEAR * column.var():
            kept.append(str(name))
    return kept


@lru_cache(maxsize=8)
def population_of(name: str, d: int = 0) -> Population:
    """A population by its name; `d` is for those of any number of coefficients."""
    if name in TABLES:
        return table_population(name)
    recipe = balanced(LIKENESSES[name][1]() if name in LIKENESSES else GENERATORS[name](d))
    bounds, levels, products = recipe.bounds, recipe.levels, recipe.products
    _, terms = design(recipe.covariates(1, np.random.default_rng(0)), bounds, levels, products)
    truth = pd.Series(recipe.coefs, index=terms)
    return Population(recipe.sample, bounds, levels, truth, recipe.null, products=products)
