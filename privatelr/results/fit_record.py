"""The content of a fit, and the public linear map from scaled units to the user's units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import scipy

from privatelr.arguments import suggests_arguments
from privatelr.design import DesignSpec, EntryBoundedMatrix
from privatelr.errors import GuaranteeError
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms import Release
from privatelr.mechanisms.calibration import Calibration
from privatelr.numerics import Loss
from privatelr.numerics.rows import bounded_entries, bounded_rows
from privatelr.privacy import Guarantee
from privatelr.types import FloatArray

if TYPE_CHECKING:
    import os

    from privatelr.mechanisms.selection_release import SelectionCalibration, Selections
    from privatelr.results import fit_tables
    from privatelr.results import odds_ratios as odds
    from privatelr.results.diagnostics import Diagnostics
    from privatelr.results.pages import card
    from privatelr.results.pages.card import CardFormat
    from privatelr.results.pages.summary import FitSummary
    from privatelr.results.predict import Threshold
    from privatelr.results.release_files import release_file
    from privatelr.results.release_files.origin import Key, Origin
    from privatelr.types import FloatArray
else:
    card = lazy_import("privatelr.results.pages.card")
    release_file = lazy_import("privatelr.results.release_files.release_file")
    fit_tables = lazy_import("privatelr.results.fit_tables")
    odds = lazy_import("privatelr.results.odds_ratios")


_KEPT = ("spec", "release", "threshold", "origin")
"""Attributes that a pickle contains: all of them are paid for or public."""


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelRecord(ABC):
    """A release and the public plan that says how to read it.

    It holds no row of the data. Diagnostics, which are computed from the data, are kept apart
    and may be missing.

    Attributes
    ----------
    spec : DesignSpec or EntryBoundedMatrix
        The plan: formula, bounds, levels, coding.
    release : Release or Selections
        Coefficients in scaled units, in which bounded variables go from -1 to 1; guarantee,
        calibration.
    threshold : float or str
        The limit between the classes of ``predict(type="classes")``: a number, or the rule by
        which one is learned.
    origin : Origin, optional
        Of a fit that was read from a file: who signed it, what was recomputed when it was read,
        and what is only stated. None of a fit that was made here.
    """

    spec: Any
    release: Any
    threshold: Threshold
    _diagnostics: Diagnostics | None = None
    origin: Origin | None = None

    @property
    def coef(self) -> pd.Series[float]:
        """Coefficients in the units of the columns, named; the intercept first."""
        return self._named(in_user_units(self), "estimate")

    @property
    def params(self) -> pd.Series[float]:
        """The same as `coef`, by statsmodels' name."""
        return self.coef

    @property
    def odds_ratios(self) -> pd.Series[float]:
        """Exponentials of `coef`, for a model of probabilities.

        With intervals, where inference was requested: ``tidy(conf_int=True, exponentiate=True)``,
        or as a page ``summary(exponentiate=True)``.
        """
        odds.require_odds(self)
        with np.errstate(over="ignore"):
            return self._named(np.exp(in_user_units(self)), "odds_ratio")

    @property
    def nobs(self) -> int:
        """Number of records, public because neighbours replace a record."""
        return int(self.release.calibration.problem.n)

    @property
    def formula(self) -> str:
        """The formula with ``.`` expanded."""
        return str(self.spec.formula.text)

    @property
    def loss(self) -> Loss:
        """The loss that is minimised; it determines the scale of predictions."""
        return cast("Loss", self.release.calibration.problem.loss)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the coefficients and of everything that is computed from them."""
        return cast("Guarantee", self.release.guarantee)

    @property
    def has_diagnostics(self) -> bool:
        """Whether there are `diagnostics`; a fit that was stored has none."""
        return self._diagnostics is not None

    @property
    def diagnostics(self) -> Diagnostics:
        """Not private: C-index, ROC points and thresholds of the training data."""
        if self._diagnostics is None:
            raise GuaranteeError(
                "diagnostics are computed from the training data and are not kept in a saved fit, "
                "nor made of a Dask collection of many records; fit again to see them."
            )
        return self._diagnostics

    def save(self, path: str | os.PathLike[str], *, key: Key = None) -> None:
        """Write the fit to a release file, for `privatelr.load` and for other programs.

        The file is JSON: formula, bounds and levels, coefficients, the noisy matrices of
        inference if they were requested, or how often each column was chosen and in which order,
        guarantee, calibration, ledger entry, versions and a content hash. A file that is there
        is replaced, whole or not at all.

        Parameters
        ----------
        path
            Name of the file, such as ``"model.json"``.
        key : Ed25519PrivateKey, bytes, str or path, optional
            Signs the file: a key object of `cryptography`, PEM bytes, or the name of a PEM file.
            A reader with the public key can then see who wrote it; see `privatelr.load`.

        Raises
        ------
        ArgumentError
            If `key` is not a private Ed25519 key.
        MissingDependencyError
            If there is a key, and `cryptography` is not installed (``privatelr[signatures]``).
        GuaranteeError
            If the columns were scaled by the data, whose means the file would then hold.
        ReleaseFileError
            If a level is neither a text, a number nor a boolean.

        Notes
        -----
        **Privacy.** *Covered*: everything in the file, by ``fit.guarantee``; a plain or seeded
        fit says in its file that nothing is. *Neighbours*: those of the guarantee. *Assumed
        public*: n, names, types, declared bounds and levels. *Not covered*: nothing that is in
        the file; diagnostics and a learned threshold are not.
        """
        release_file.write_release(self, path, key)

    def card(self, format: CardFormat = "markdown") -> str:
        """The privacy card: what is promised to whom, what is not, and how to check it.

        Parameters
        ----------
        format
            ``"markdown"``, or ``"html"`` for a page of its own.

        Notes
        -----
        **Privacy.** *Covered*: the card repeats what the release file holds. *Neighbours*: those
        of the guarantee. *Assumed public*: as for `save`. *Not covered*: nothing that is on it.
        """
        return card.write_card(self, format)

    def summary(self) -> FitSummary:
        """The page that `print` shows; subclasses define it."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.formula!r}, {self.guarantee}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    @abstractmethod
    def bounded(self, covariates: FloatArray) -> FloatArray:
        """Design rows of covariates, bounded as the rows of the fit were."""

    def _named(self, values: FloatArray, name: str) -> pd.Series[float]:
        return pd.Series(values, index=list(self.spec.columns.names), name=name)

    def __getstate__(self) -> dict[str, Any]:
        """What is written to a file: everything but the diagnostics."""
        return {name: getattr(self, name) for name in _KEPT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in _KEPT:
            object.__setattr__(self, name, state.get(name))  # older pickles have no origin
        object.__setattr__(self, "_diagnostics", None)

    def __copy__(self) -> ModelRecord:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelRecord:
        return self


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FitRecord(ModelRecord):
    """A model whose minimiser, or objective, noise was added to."""

    spec: DesignSpec
    release: Release

    @property
    def privacy_sd(self) -> pd.Series[float]:
        """Standard deviation that the noise adds to `coef`.

        If inference was requested, the part of the noise in the standard errors `bse`, made from
        the release. If not, `privacy_sd_limit`. It is the column of the same name in `tidy()`.
        """
        if self.release.moments is None:
            return self.privacy_sd_limit.rename("privacy_sd")
        return self._named(fit_tables.infer_coefficients(self).privacy_sd, "privacy_sd")

    @property
    def privacy_sd_limit(self) -> pd.Series[float]:
        """Standard deviation that the noise adds to `coef`, at most; free of the data.

        See `Calibration.coefficient_sd`; design noise is carried over by the public map. (A
        map that was learned under ``do_scale`` is not public, and neither is this then.)
        """
        reach = row_lengths_of(self.spec.user_map())
        return self._named(self.calibration.coefficient_sd * reach, "privacy_sd_limit")

    @property
    def calibration(self) -> Calibration:
        """How noise and lambda were chosen."""
        return self.release.calibration

    def bounded(self, covariates: FloatArray) -> FloatArray:
        """Design rows of covariates, shortened as the rows of the fit were."""
        spec = self.spec
        return bounded_rows(covariates, spec.bound, spec.intercept, spec.projection, spec.blocks)


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SelectedRecord(ModelRecord):
    """A model whose columns were chosen one after the other."""

    spec: DesignSpec | EntryBoundedMatrix
    release: Selections

    @property
    def calibration(self) -> SelectionCalibration:
        """How many choices were made, and how private each is."""
        return self.release.calibration

    def bounded(self, covariates: FloatArray) -> FloatArray:
        """Design rows of covariates, each entry held to its bound as in the fit."""
        return bounded_entries(covariates, self.calibration.problem.x_bound, self.spec.intercept)


def in_user_units(fit: ModelRecord) -> FloatArray:
    """Return `coef` without names, because millions of names take long to make."""
    return np.asarray(fit.spec.user_map() @ fit.release.coef)


def limits_at(fit: FitRecord, places: list[int]) -> FloatArray:
    """`privacy_sd_limit` of the coefficients in these places."""
    units = scipy.sparse.csr_array(fit.spec.user_map())[places]
    return np.asarray(fit.calibration.coefficient_sd * row_lengths_of(units))


def row_lengths_of(matrix: Any) -> FloatArray:
    """Euclidean length of each row of a map, dense or sparse."""
    if scipy.sparse.issparse(matrix):
        return np.asarray(np.sqrt((matrix * matrix).sum(axis=1)))
    return np.asarray(np.linalg.norm(matrix, axis=1))
