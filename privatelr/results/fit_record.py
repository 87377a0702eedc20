"""The content of a fit, and the public linear map from scaled units to the user's units."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import scipy

from privatelr.arguments import suggests_arguments
from privatelr.design import (
    DesignSpec,
    Prior,
    RowSpec,
    require_same_bases,
    said_about,
)
from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.mechanisms import Release
from privatelr.mechanisms.calibration import Calibration
from privatelr.numerics import Loss, describe
from privatelr.numerics.rows import bounded_rows
from privatelr.privacy import Guarantee
from privatelr.results import views
from privatelr.types import FloatArray

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes

    from privatelr.privacy.accounting import AnyLedger, Entry
    from privatelr.results.answers.private_roc import PrivateRoc
    from privatelr.results.diagnostics import Diagnostics
    from privatelr.results.fit_kind import FitKind
    from privatelr.results.pages.card import CardFormat
    from privatelr.results.pages.summary import FitSummary
    from privatelr.results.predict import Threshold
    from privatelr.results.release_files.origin import Origin
    from privatelr.types import FloatArray


_KEPT = ("spec", "release", "threshold", "origin")
"""A pickle contains these attributes; each is public or covered by the guarantee."""


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelRecord(ABC):
    """A release, and the public plan by which its numbers are interpreted.

    It contains no row of the data. Diagnostics, which are computed from the data, are stored
    separately and may be missing.

    Attributes
    ----------
    spec : DesignSpec or a plan of numbered columns
        The plan: formula, bounds, levels, coding.
    release : Release, or that of another kind of fit
        The coefficients in scaled units (bounded variables go from -1 to 1), the guarantee, and
        the calibration.
    threshold : float or str
        The limit between the classes of ``predict(type="classes")``: a number, or the rule by
        which one is learned.
    origin : Origin, optional
        For a fit that was read from a file: what was recomputed when it was read, and what its
        writer only states. It is None for a fit that was not read from a file.
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

        If inference was requested, ``tidy(conf_int=True, exponentiate=True)`` returns those of the
        target, with intervals, and ``summary(exponentiate=True)`` shows them as a page.
        """
        views.odds_ratios.require_odds(self)
        with np.errstate(over="ignore"):
            return self._named(np.exp(in_user_units(self)), "odds_ratio")

    @property
    def nobs(self) -> int:
        """Number of records or of persons, which is public; of a stratum, that of all strata."""
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
    def scale(self) -> pd.DataFrame | None:
        """The released scale of the columns; None for a fit that released none."""
        return None

    @property
    def entry(self) -> Entry | None:
        """The entry that a ledger was charged with; None if none was."""
        return cast("Entry | None", self.release.entry)

    @property
    def has_inference(self) -> bool:
        """Whether standard errors were bought with the fit."""
        return False

    @property
    def has_roc(self) -> bool:
        """Whether a ROC curve was bought with the fit, which `roc` then is."""
        return self.release.histogram is not None

    @property
    def has_diagnostics(self) -> bool:
        """Whether there are `diagnostics`; a fit from a file has none."""
        return self._diagnostics is not None

    @property
    def diagnostics(self) -> Diagnostics:
        """C-index, ROC points, thresholds and counts of the training data; they are not private."""
        if self._diagnostics is None:
            raise GuaranteeError(
                "diagnostics are computed from the training data and are not kept in a saved fit, "
                "nor made of a Dask collection of many records; fit again to see them."
            )
        return self._diagnostics

    @property
    def roc(self) -> PrivateRoc:
        """The ROC curve of the training data that was bought with the fit.

        ``spend={"coefficients": 0.75, "roc": 0.25}`` buys it. ``fit.guarantee`` covers it together
        with the coefficients.

        Raises
        ------
        GuaranteeError
            If the fit bought none; `private_roc` then releases one, at a price of its own.
        """
        return views.private_roc.bought_roc(self)

    def private_roc(
        self,
        data: Any,
        eps: float | Guarantee = 1.0,
        *,
        delta: float = 0.0,
        response: Any = None,
        person: Any = None,
        ledger: AnyLedger | None = None,
        seed: int | None = None,
    ) -> PrivateRoc:
        """Release a ROC curve with its AUC, thresholds, prevalence and calibration.

        Scores are counted by class, in bins that are public, and noise is added to each count.
        Everything else is computed from these counts.

        It is a release of its own, whose guarantee is about the records that are scored. Scoring
        the training records is a second release of the same data, so that both prices add up.
        Records that were set apart beforehand, by their public positions, are other records: for
        each of them the larger price holds. A ledger counts it that way if the fit and the answer
        are charged to ``ledger.part("train")`` and ``ledger.part("test")``.

        Parameters
        ----------
        data
            The records to score, with the columns of the formula: the training data or other
            records, also as a Dask frame, whose partitions send counts only. A record that cannot
            be used counts as that, and so does one outside of the subset or stratum of the fit.
        eps, delta
            The price of the answer, as in `dplr`; a price of 0 is refused.
        response
            The outcomes of the records, if they are not a column of `data`, as for a fit of
            ``dplr(y, X)``.
        person
            For a fit about persons, who the records are of, if `response` is given, too; without
            it they are told apart by the column that the formula names. Values that have the name
            of another column are refused, and with a ledger those that have no name. All records of
            a person count as one together, and the answer is about persons.
        ledger : Ledger or path, optional
            Account to charge before the scores are computed; as in `dplr`.
        seed : int, optional
            Repeats the noise, for tests and teaching. Voids the guarantee.

        Returns
        -------
        PrivateRoc

        Raises
        ------
        FormulaError, SchemaError, GuaranteeError, ArgumentError
            One sentence each, on public facts only.

        Notes
        -----
        **Privacy.** *Covered*: the result and all that is computed from it, by its guarantee,
        beside what the fit itself costs. *Neighbours*: datasets of the same n that differ in one
        record, or of as many persons that differ in the records of one of them. *Assumed public*:
        the fit, the number of records (or of persons), names and types. *Not
        covered*: time and memory; and training records, if the fit has no guarantee itself.
        """
        opened = views.scored_records.open_data(self, data, response, person)
        return views.private_roc.private_roc(self, opened, eps, delta, ledger, seed)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fit to a release file, for `privatelr.load` and for other programs.

        The file is JSON. It contains the formula, bounds and levels, the coefficients, the
        guarantee, the calibration, the ledger entry, versions, and a content hash; also the noisy
        matrices of inference and the noisy counts of scores if they were requested, or the counts
        and the order of choices. It is written completely or not at all.

        Parameters
        ----------
        path
            Name of the file, such as ``"model.json"``.
        overwrite : bool
            Whether an existing file is replaced. Without it, the release in it stays.

        Raises
        ------
        GuaranteeError
            If the columns were scaled by the data, because the file would then contain their
            means.
        ReleaseFileError
            If the file exists, or if a level is not a text, a number or a boolean.

        Notes
        -----
        **Privacy.** *Covered*: everything in the file, by ``fit.guarantee``; the file of a plain
        or seeded fit says that it is not private. *Neighbours*: those of the guarantee. *Assumed
        public*: n, names, types, declared bounds and levels. *Not covered*: nothing in the file;
        diagnostics and a learned threshold are not part of it.
        """
        views.release_file.write_release(self, path, overwrite=overwrite)

    def card(self, format: CardFormat = "markdown") -> str:
        """The privacy card: what is promised and to whom, what is not, and how to check it.

        Parameters
        ----------
        format
            ``"markdown"``, or ``"html"`` for a complete HTML page.

        Notes
        -----
        **Privacy.** *Covered*: the card, which repeats what the release file contains.
        *Neighbours*: those of the guarantee. *Assumed public*: as for `save`. *Not covered*:
        nothing on the card.
        """
        return views.card.written(views.card.pieces_of_fit(self), format)

    def summary(self) -> FitSummary:
        """The page that `print` shows; subclasses define it."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.summary().as_text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.formula!r}, {self.guarantee}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    @property
    @abstractmethod
    def kind(self) -> FitKind[Any]:
        """How fits of this kind are described, shown and applied."""

    @abstractmethod
    def bounded(self, covariates: FloatArray) -> FloatArray:
        """Design rows ``(n, d)`` of covariates, with the same bounds as the rows of the fit."""

    def _named(self, values: FloatArray, name: str) -> pd.Series[float]:
        return pd.Series(values, index=list(self.spec.columns.names), name=name)

    def __getstate__(self) -> dict[str, Any]:
        """The attributes that a pickle contains: all but the diagnostics."""
        return {name: getattr(self, name) for name in _KEPT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name in _KEPT:
            object.__setattr__(self, name, state[name])
        object.__setattr__(self, "_diagnostics", None)

    def __copy__(self) -> ModelRecord:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelRecord:
        return self


@suggests_arguments
class NoisyRecord(ModelRecord):
    """What was released by adding noise to a minimiser or to an objective."""

    __slots__ = ()

    spec: DesignSpec
    release: Release

    @property
    def kind(self) -> FitKind[Any]:
        """How fits with noise are described, shown and applied."""
        return views.fit_kind.NOISY

    @property
    def scale(self) -> pd.DataFrame | None:
        """Means and standard deviations of the columns, which standardised the rows.

        In the units of the data: mean, the standard deviation noise_sd of the noise on it, sd, and
        sd_lower and sd_upper. Between these the standard deviation of the records lies, by the
        known law of the noise: for each column in 95 % of fits or more, whatever the data. A lower
        end of 0 says that the noise leaves open whether the column varies at all. They were paid
        for, so they are free to publish. None for a fit that has none.

        They are over all n records; one that could not be used counts as the middle of the
        bounds of every column, and as none of the levels: where many values are missing, means are
        nearer to the middle than those of the complete records, and shares are smaller.

        A number that varies little within its bounds may have a released range. Then mean and sd
        are the middle of the range, and half its width over 1.15, and the other numbers are NaN.
        """
        return None if self.release.scale is None else views.fit_tables.scale_table(self)

    @property
    def has_inference(self) -> bool:
        """Whether standard errors were bought with the fit."""
        return self.release.moments is not None

    @property
    def calibration(self) -> Calibration:
        """The noise, lambda, and the facts from which they were computed."""
        return self.release.calibration

    def plot_term(
        self,
        term: str,
        *,
        at: Mapping[str, Any] | None = None,
        level: float = 0.95,
        ax: Any = None,
    ) -> Axes:
        """Draw what a variable adds, such as ``"bs(age)"``, with its band if inference was bought.

        Other variables are held at ``at={"sex": "F"}``, or at the middle of their bounds and at
        their first level. There is a line for each level in an interaction with the variable, and
        for each of several classes, against the reference.
        """
        return views.term_plot.plot_term({"": self}, term, at=at, level=level, ax=ax)

    def bounded(self, covariates: FloatArray) -> FloatArray:
        """Design rows of covariates, shortened as the rows of the fit were."""
        spec = self.spec
        if spec.standard is not None and spec.standard.weighted:  # a new row counts as it is
            return bounded_rows(covariates, math.inf, spec.intercept)
        return bounded_rows(covariates, spec.bound, spec.intercept, spec.projection, spec.blocks)


@suggests_arguments
class FitRecord(NoisyRecord):
    """A model of two classes that was released with noise."""

    __slots__ = ()

    @property
    def privacy_sd(self) -> pd.Series[float]:
        """Standard deviation that the noise adds to the estimates of `tidy`.

        If inference was requested, it is the part of the standard errors `bse` that the noise
        causes, computed from the release. Otherwise it is `privacy_sd_limit`.
        """
        if not self.has_inference:
            return self.privacy_sd_limit.rename("privacy_sd")
        return self._named(views.fit_tables.infer_coefficients(self).privacy_sd, "privacy_sd")

    @property
    def privacy_sd_limit(self) -> pd.Series[float]:
        """An upper bound on the standard deviation that the noise adds to `coef`.

        It is computed without the data, from `Calibration.coefficient_sd` and the public map to
        the user's units. (Under ``do_scale`` that map is learned from the data; then neither the
        map nor this bound is public.)
        """
        reach = row_lengths_of(self.spec.user_map())
        return self._named(self.calibration.coefficient_sd * reach, "privacy_sd_limit")

    @property
    def privacy_sd_expected(self) -> pd.Series[float]:
        """A forecast of the standard deviation that the noise adds to `coef`.

        It is that of `privatelr.plan`, by the same public guesses about the records, and without a
        look at the data. If the scale of the columns was released, it takes the place of the
        guesses about numbers. Columns that go together, or classes that are easily told apart, have
        more noise. It is exact for output perturbation, and NaN where nothing is declared to guess
        by, where rows are projected, and for more than 200 columns.
        """
        every = list(range(len(self.spec.columns.names)))
        return self._named(views.fit_tables.noise_at(self, every)[0], "privacy_sd_expected")


def coefficient_names(fit: ModelRecord) -> list[str]:
    """The names of the columns."""
    return list(fit.spec.columns.names)


def in_user_units(fit: ModelRecord) -> FloatArray:
    """The values of `coef` without names, because an index of millions of names is slow."""
    return np.asarray(fit.spec.user_map() @ fit.release.coef)


def row_lengths_of(matrix: Any) -> FloatArray:
    """Euclidean length ``(m,)`` of each row of a dense or sparse matrix."""
    if scipy.sparse.issparse(matrix):
        return np.asarray(np.sqrt((matrix * matrix).sum(axis=1)))
    return np.asarray(np.linalg.norm(matrix, axis=1))


def _asked(loss: Any) -> str:
    """Return the arguments of `dpsvm` that ask for a loss."""
    return f"loss={loss.name!r}, h={loss.parameters['h']:g}"


def prior_of_fit(earlier: FitRecord, given: Prior, spec: RowSpec, loss: Any) -> Prior:
    """Return the prior for a plan; coefficients of another response or loss mean something else."""
    if earlier.loss != loss:
        remedy = "prior takes a fit by the same loss, or numbers by names of coefficients"
        if "h" in earlier.loss.parameters and "h" in loss.parameters:  # two bends of a hinge
            remedy = f"prior takes a fit by the same loss: write {_asked(loss)} in the earlier "
            remedy += f"call, or {_asked(earlier.loss)} in this one"
        raise ArgumentError(
            f"prior: the earlier fit is a {earlier.loss.title} ({describe(earlier.loss)}) and this "
            f"one a {loss.title} ({describe(loss)}); {remedy}."
        )
    was, now = earlier.spec.response, spec.response
    if len({(one.expression.label, one.kind, one.classes) for one in (was, now)}) > 1:
        raise ArgumentError(
            f"prior: the response of the earlier fit is {was.describe()}, and here it is "
            f"{now.describe()}; prior takes a fit of the same response."
        )
    require_same_bases(earlier.spec, spec)
    found = given.for_plan(spec, only_shared=True)
    return said_about(found, earlier.spec, list(earlier.coef.index), spec)
