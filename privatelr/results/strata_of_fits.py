"""The object that `dplr` returns for ``by="sex"``: a fit for each level, and one price of all.

One record counts in one stratum, so all fits together have the guarantee that one of them has; see
`privatelr.mechanisms.problem` for the theorem.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr import page_model
from privatelr.arguments import refuses, suggests_arguments
from privatelr.design import level_codes, read_values
from privatelr.results import views
from privatelr.results.answers import named_fits
from privatelr.results.augment import Augments
from privatelr.results.fit import Fit
from privatelr.results.predict import by_parts
from privatelr.sources import as_batch, is_dask, is_stream
from privatelr.types import IntArray

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes

    from privatelr.page_model import Piece
    from privatelr.results.answers.private_roc import PrivateRoc
    from privatelr.results.pages.card import CardFormat
    from privatelr.results.pages.comparison import Comparison
    from privatelr.results.predict import PredictionType


def _below(tables: Mapping[Any, pd.DataFrame]) -> pd.DataFrame:
    """Tables below each other, with the level before the name of each row."""
    return pd.concat(tables, names=["stratum", "term"])


def _as_column(tables: Mapping[Any, pd.DataFrame]) -> pd.DataFrame:
    """Tables below each other, with the level in the column ``stratum``."""
    for level, table in tables.items():
        table.insert(0, "stratum", level)
    return pd.concat(tables.values(), ignore_index=True)


def _each(
    name: str, joined: Callable[[Mapping[Any, pd.DataFrame]], pd.DataFrame]
) -> Callable[..., pd.DataFrame]:
    """A method of `Fit` for strata, which has its arguments: that of each fit, joined."""

    @functools.wraps(getattr(Fit, name))
    def method(strata: Strata, *args: Any, **options: Any) -> pd.DataFrame:
        return joined({k: getattr(fit, name)(*args, **options) for k, fit in strata.items()})

    end = "in the column ``stratum``" if joined is _as_column else "before the name of each row"
    method.__doc__ = f"`Fit.{name}` of each fit, with the level {end}."
    return method


def _side_by_side(name: str) -> property:
    """A property of `Fit` for strata: a row per term, and a column per level."""

    def table(strata: Strata) -> pd.DataFrame:
        return pd.DataFrame({level: getattr(fit, name) for level, fit in strata.items()})

    return property(table, doc=f"`Fit.{name}` of each fit: a row per term, a column per level.")


def _of_first(name: str) -> Any:
    """A property of `Fit` for strata, which is the same for each fit."""
    return property(attrgetter(f"first.{name}"), doc=f"`Fit.{name}`, which is that of each fit.")


@refuses(
    "it is about one fit, as in fits[level], and prices add up; spend={'coefficients': 0.75, "
    "'roc': 0.25} buys a curve for each stratum with the fits, at one price.",
    methods="private_roc",
)
@refuses(
    "each stratum has its own, as in fits[level].",
    methods="wald_test deviance_test bounded model_matrix",
    properties="diagnostics threshold release spec origin kind",
)
@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Strata(Augments, Mapping[Any, Fit]):
    """Fits to the strata of a column, by its declared levels: ``fits["female"]``.

    It is a mapping from levels to fits, in the order of the declaration, and prints as one table.

    Attributes
    ----------
    by : str
        The column whose levels divide the records.
    fits : mapping from level to Fit
        Each is a fit with all methods of one. Records of other levels were rows of zeros to it.

    Notes
    -----
    **Privacy.** *Covered*: all fits together, by `guarantee`. *Neighbours*: replace one record,
    which may then be of another level, and so change two fits; or all records of a person, in as
    many strata as there are. *Assumed public*: n and the levels.
    *Not covered*: how many records each stratum has is in none of the fits; diagnostics of each fit
    are no more private than those of a fit to all records.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> votes = votes.assign(age_group=["young", "old"] * 472)
    >>> public["levels"] = {**public["levels"], "age_group": ["young", "old"]}
    >>> fits = dplr("vote ~ selfLR", votes, eps=1.0, by="age_group", **public)
    >>> print(list(fits), fits.guarantee)
    ['young', 'old'] epsilon = 1 (pure)
    """

    by: str
    fits: Mapping[Any, Fit]

    def __getitem__(self, level: Any) -> Fit:
        if level not in self.fits:
            levels = ", ".join(map(repr, self.fits))
            raise KeyError(f"{level!r} is no level of {self.by}, which has {levels}.")
        return self.fits[level]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fits)

    def __len__(self) -> int:
        return len(self.fits)

    @property
    def levels(self) -> tuple[Hashable, ...]:
        """The declared levels, each of which has a fit."""
        return tuple(self.fits)

    @property
    def first(self) -> Fit:
        """The fit to the first level; what is public is the same in all."""
        return next(iter(self.fits.values()))

    guarantee = _of_first("guarantee")
    nobs = _of_first("nobs")
    entry = _of_first("entry")
    loss = _of_first("loss")
    calibration = _of_first("calibration")
    scale = _of_first("scale")
    has_inference = _of_first("has_inference")
    has_roc = _of_first("has_roc")
    has_diagnostics = _of_first("has_diagnostics")

    coef = _side_by_side("coef")
    params = _side_by_side("params")
    odds_ratios = _side_by_side("odds_ratios")
    bse = _side_by_side("bse")
    tvalues = _side_by_side("tvalues")
    pvalues = _side_by_side("pvalues")
    privacy_sd = _side_by_side("privacy_sd")
    privacy_sd_expected = _side_by_side("privacy_sd_expected")
    privacy_sd_limit = _side_by_side("privacy_sd_limit")
    tidy = _each("tidy", _as_column)
    glance = _each("glance", _as_column)
    conf_int = _each("conf_int", _below)
    confint = _each("confint", _below)
    contrasts = _each("contrasts", _below)
    t_test = Fit.t_test  # it takes the contrasts of whatever has them
    vcov = _each("vcov", _below)
    cov_params = _each("cov_params", _below)
    anova = _each("anova", _below)

    @property
    def roc(self) -> dict[Hashable, PrivateRoc]:
        """The ROC curve of each stratum, which was bought with the fits; see `Fit.roc`.

        Each is of the records of its stratum; `guarantee` covers all of them together.

        Raises
        ------
        GuaranteeError
            If the fits bought none.
        """
        return {level: fit.roc for level, fit in self.fits.items()}

    @property
    def formula(self) -> str:
        """The formula of all strata, with ``.`` expanded."""
        own = self.first.spec.formula.by
        assert own is not None
        return self.first.formula.replace(own.label, replace(own, level=None).label)

    def predict(
        self,
        data: Any,
        type: PredictionType | None = None,
        *,
        threshold: Any = None,
        interval: float | None = None,
        mode: str | None = None,
        target: str | None = None,
    ) -> pd.Series[Any] | pd.DataFrame:
        """Predict each row of `data` by the fit of its stratum; see `Fit.predict`.

        A row whose level is missing or not declared gets NaN, as one with a missing value does.

        Raises
        ------
        FormulaError
            If `data` lacks the column of the strata.
        """
        asked: Any = {"threshold": threshold, "interval": interval, "mode": mode, "target": target}
        of_part = partial(_predicted, self, type, asked, is_dask(data) or is_stream(data))
        spec = self.first.spec
        return by_parts(of_part, spec, data, (*spec.formula.covariates, self.by))

    def plot(self, **options: Any) -> Axes:
        """Draw the coefficients of all strata; see `privatelr.plot_coefficients`."""
        return views.forest.plot_coefficients(self, **options)

    def plot_term(
        self,
        term: str,
        *,
        at: Mapping[str, Any] | None = None,
        level: float = 0.95,
        ax: Any = None,
    ) -> Axes:
        """Draw what a variable adds, with a line for each stratum; see `Fit.plot_term`."""
        fits = named_fits.labelled(self)
        return views.term_plot.plot_term(fits, term, at=at, level=level, ax=ax)

    def summary(self) -> Comparison:
        """The table that `print` shows: a column for each stratum, and the price of all together.

        `privatelr.compare` takes the strata, too, and shows intervals or odds ratios.
        """
        return views.comparison.compare(self)

    def card(self, format: CardFormat = "markdown") -> str:
        """The privacy card of all fits: what is promised of them together, and each one's card."""
        return views.card.written(views.card.pieces_of_strata(self), format)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write all fits to one release file, for `privatelr.load`; see `Fit.save`.

        It holds what each fit would write, and is read back as `Strata`.
        """
        views.release_file.write_release(self, path, overwrite=overwrite)

    def __str__(self) -> str:
        return f"{page_model.as_text(self._head())}\n{self.summary().as_text()}"

    def __repr__(self) -> str:
        return f"<Strata of {self.by!r}: {', '.join(map(repr, self.fits))}; {self.guarantee}>"

    def _repr_html_(self) -> str:
        return page_model.as_html(self._head()) + self.summary().as_html()

    def _head(self) -> list[Piece]:
        """The kind of the models, and their formula without a level."""
        title = f"{views.sentences.title(self.first)}, a fit for each {self.by}"
        return [page_model.Heading(title), page_model.Code(self.formula), ""]


def _predicted(fits: Strata, type: Any, asked: Any, in_parts: bool, data: Any) -> Any:
    """The predictions of a frame, or of a partition."""
    batch = as_batch(data)
    values, valid = read_values(fits.first.spec.variables, batch, (fits.by,))
    codes = np.where(valid, level_codes(values[fits.by], fits.levels), -1)
    parts: list[Any] = [fit.predict(data, type, **asked) for fit in fits.values()]
    first = parts[0]
    if not isinstance(first, pd.DataFrame):
        found = _chosen(parts, codes)
        # all partitions have the same type, whoever has a class in them
        return found.astype(object) if in_parts and first.name == "class" else found
    columns = {name: _chosen([part[name] for part in parts], codes) for name in first}
    table = pd.DataFrame(columns)
    table.attrs = first.attrs
    return table


def _chosen(parts: list[pd.Series[Any]], codes: IntArray) -> pd.Series[Any]:
    """Take each value from the part whose number it has; NaN for -1."""
    found = parts[0].where(codes == 0)
    for place, part in enumerate(parts[1:], 1):
        found = found.where(codes != place, part)
    return found
