"""The object that `dplr` returns for ``by="sex"``: a fit for each level, and one price of all.

One record counts in one stratum, so all fits together have the guarantee that one of them has; see
`privatelr.mechanisms.problem` for the theorem.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from privatelr import page_model
from privatelr.arguments import suggests_arguments
from privatelr.design import level_codes, read_values
from privatelr.errors import ArgumentError, FormulaError
from privatelr.lazy_import import lazy_import
from privatelr.privacy import Guarantee
from privatelr.results.fit import Fit
from privatelr.sources import as_batch, is_dask
from privatelr.types import IntArray

if TYPE_CHECKING:
    import os

    from privatelr.page_model import Piece
    from privatelr.results.answers.private_roc import PrivateRoc
    from privatelr.results.pages import comparison, sentences, strata_card
    from privatelr.results.pages.card import CardFormat
    from privatelr.results.pages.comparison import Comparison
    from privatelr.results.pages.comparison_table import Statistic
    from privatelr.results.predict import PredictionType
    from privatelr.results.release_files import release_file
    from privatelr.results.release_files.origin import Key
else:
    comparison = lazy_import("privatelr.results.pages.comparison")
    sentences = lazy_import("privatelr.results.pages.sentences")
    strata_card = lazy_import("privatelr.results.pages.strata_card")
    release_file = lazy_import("privatelr.results.release_files.release_file")


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Strata(Mapping[Any, Fit]):
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

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all fits together, which is that of each of them."""
        return self.first.guarantee

    @property
    def nobs(self) -> int:
        """Number of records of all strata; those of one stratum are not counted."""
        return self.first.nobs

    @property
    def coef(self) -> pd.DataFrame:
        """Coefficients in the units of the columns: a row per term, a column per level."""
        return pd.DataFrame({level: fit.coef for level, fit in self.fits.items()})

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

    def private_roc(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: each fit answers for its own stratum, at a price that is added to the others'.

        Raises
        ------
        ArgumentError
        """
        self._one_by_one("private_roc")

    def private_auc(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as `private_roc` does."""
        self._one_by_one("private_auc")

    def private_threshold(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as `private_roc` does."""
        self._one_by_one("private_threshold")

    def _one_by_one(self, name: str) -> NoReturn:
        raise ArgumentError(
            f"{name}: it is about one fit; fits[{self.levels[0]!r}].{name}(data, eps=...) scores "
            "the records of that stratum, and prices add up. spend={'coefficients': 0.75, 'roc': "
            "0.25} buys a curve for each with the fits, at one price."
        )

    def tidy(
        self,
        conf_int: bool = False,
        conf_level: float = 0.95,
        exponentiate: bool = False,
        *,
        mode: str | None = None,
        target: str | None = None,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """One row for each level and coefficient, with the level in the column ``stratum``.

        See `Fit.tidy` for the options. With `simultaneous` the level holds for the intervals of
        each stratum together, and not for those of all strata.
        """
        shown: Any = {"conf_int": conf_int, "conf_level": conf_level, "exponentiate": exponentiate}
        asked = {"mode": mode, "target": target, "simultaneous": simultaneous}
        return self._below("tidy", shown | asked)

    def glance(self) -> pd.DataFrame:
        """One row about each fit; see `Fit.glance`."""
        return self._below("glance", {})

    def _below(self, method: str, options: dict[str, Any]) -> pd.DataFrame:
        tables = []
        for level, fit in self.fits.items():
            table = getattr(fit, method)(**options)
            table.insert(0, "stratum", level)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def predict(
        self,
        data: Any,
        type: PredictionType | None = None,
        *,
        threshold: float | str | None = None,
        interval: float | None = None,
        mode: str | None = None,
        target: str | None = None,
    ) -> pd.Series[Any] | pd.DataFrame:
        """Predict each row of `data` by the fit of its stratum; see `Fit.predict`.

        A row whose level is missing or not declared gets NaN, as one with a missing value does.

        Raises
        ------
        ArgumentError
            For a Dask collection: each fit predicts one, ``fits["female"].predict(data)``.
        FormulaError
            If `data` lacks the column of the strata.
        """
        if is_dask(data):
            raise ArgumentError(
                "predict: strata take data in memory; each of the fits predicts a Dask collection."
            )
        batch = as_batch(data)
        if self.by not in batch.names:
            raise FormulaError(f"data: the column {self.by!r}, which tells strata, is missing.")
        variables = self.first.spec.variables
        values, valid = read_values(variables, batch, (self.by,))
        codes = np.where(valid, level_codes(values[self.by], self.levels), -1)
        asked: Any = {"threshold": threshold, "interval": interval, "mode": mode, "target": target}
        parts: list[Any] = [fit.predict(data, type, **asked) for fit in self.fits.values()]
        first = parts[0]
        if not isinstance(first, pd.DataFrame):
            return _chosen(parts, codes)
        columns = {name: _chosen([part[name] for part in parts], codes) for name in first}
        found = pd.DataFrame(columns)
        found.attrs = first.attrs
        return found

    def summary(
        self,
        statistic: Statistic = "std_error",
        *,
        level: float = 0.95,
        exponentiate: bool = False,
        digits: int | None = None,
    ) -> Comparison:
        """The table that `print` shows: a column for each stratum, and the price of all together.

        See `compare` for the options, such as ``statistic="conf_int"``. The page of one stratum is
        ``fits["female"].summary()``.
        """
        named = {f"{self.by} = {level}": fit for level, fit in self.fits.items()}
        shown: Any = {"exponentiate": exponentiate, "digits": digits}
        return comparison.compare(named, statistic=statistic, level=level, **shown)

    def card(self, format: CardFormat = "markdown") -> str:
        """The privacy card of all fits: what is promised of them together, and each one's card."""
        return strata_card.write_card(self, format)

    def save(self, path: str | os.PathLike[str], *, key: Key = None) -> None:
        """Write all fits to one release file, for `privatelr.load`; see `Fit.save`.

        It holds what each fit would write, and is read back as `Strata`.
        """
        release_file.write_release(self, path, key)

    def __str__(self) -> str:
        return f"{page_model.as_text(self._head())}\n{self.summary().as_text()}"

    def __repr__(self) -> str:
        return f"<Strata of {self.by!r}: {', '.join(map(repr, self.fits))}; {self.guarantee}>"

    def _repr_html_(self) -> str:
        return page_model.as_html(self._head()) + self.summary().as_html()

    def _head(self) -> list[Piece]:
        """The kind of the models, and their formula without a level."""
        own = self.first.spec.formula.by
        assert own is not None
        formula = self.first.formula.replace(own.label, replace(own, level=None).label)
        title = f"{sentences.title(self.first)}, a fit for each {self.by}"
        return [page_model.Heading(title), page_model.Code(formula), ""]


def _chosen(parts: list[pd.Series[Any]], codes: IntArray) -> pd.Series[Any]:
    """Take each value from the part whose number it has; NaN for -1."""
    found = parts[0].where(codes == 0)
    for place, part in enumerate(parts[1:], 1):
        found = found.where(codes != place, part)
    return found
