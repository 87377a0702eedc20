"""Private answers that every fit can give about records with outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from privatelr.arguments import suggests_arguments
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    from privatelr.privacy import Guarantee
    from privatelr.privacy.accounting import AnyLedger
    from privatelr.results.answers import (
        private_auc,
        private_roc,
        private_threshold,
        scored_records,
    )
    from privatelr.results.answers.private_auc import PrivateAuc
    from privatelr.results.answers.private_roc import PrivateRoc
    from privatelr.results.answers.private_threshold import PrivateThreshold
    from privatelr.results.fit_record import ModelRecord
else:
    private_auc = lazy_import("privatelr.results.answers.private_auc")
    private_roc = lazy_import("privatelr.results.answers.private_roc")
    private_threshold = lazy_import("privatelr.results.answers.private_threshold")
    scored_records = lazy_import("privatelr.results.answers.scored_records")


@suggests_arguments
class Evaluated:
    """Methods that score records with outcomes, and release what is paid for.

    Each is a release of its own. Its guarantee is about the records that are scored. Scoring the
    training records is a second release of the same data, so that both prices add up. Records
    that were set apart beforehand, by their public positions, are other records: for each of
    them the larger price holds. A ledger counts it that way if the fit and the answer are charged
    to ``ledger.part("train")`` and ``ledger.part("test")``.
    """

    __slots__ = ()

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
        return private_roc.bought_roc(cast("ModelRecord", self))

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
        fit = cast("ModelRecord", self)
        opened = scored_records.open_data(fit, data, response, person)
        return private_roc.private_roc(fit, opened, eps, delta, ledger, seed)

    def private_auc(
        self,
        data: Any,
        eps: float | Guarantee = 1.0,
        *,
        smaller_class: float = 0.1,
        response: Any = None,
        person: Any = None,
        ledger: AnyLedger | None = None,
        seed: int | None = None,
    ) -> PrivateAuc:
        """Release the area under the ROC curve, and nothing else but the sizes of the classes.

        Where n and epsilon are large, its noise follows from how far a record can move the area of
        these data and of others near them, and is about half of that of a curve of the same price,
        or less. Else the area is that of a curve. Public facts decide: n, the price, and the guess.

        Parameters
        ----------
        data, response, person, ledger, seed
            As in `private_roc`. The area of a Dask frame, and of persons, is always that of a
            curve.
        eps
            Pure epsilon, or ``ZCDP(rho)``, which buys the pure epsilon that implies it. A tenth of
            it is for the sizes of the classes, from which the standard error is computed.
        smaller_class : float
            A guess, without a look at the data, of the share of the smaller class. It decides on
            accuracy alone: where the class has less than half of that, the noise may be large, and
            the standard error says so.

        Returns
        -------
        PrivateAuc

        Raises
        ------
        FormulaError, SchemaError, GuaranteeError, ArgumentError
            One sentence each, on public facts only.

        Notes
        -----
        **Privacy.** As of `private_roc`; *Covered*: the area and its standard error, and the noisy
        counts if it is that of a curve, which its file has.
        """
        fit = cast("ModelRecord", self)
        opened = scored_records.open_data(fit, data, response, person)
        return private_auc.private_auc(opened, eps, smaller_class, ledger, seed)

    def private_threshold(
        self,
        data: Any,
        eps: float | Guarantee = 1.0,
        *,
        rule: str = "youden",
        response: Any = None,
        person: Any = None,
        ledger: AnyLedger | None = None,
        seed: int | None = None,
    ) -> PrivateThreshold:
        """Release a threshold between the classes, and nothing else.

        It is chosen among public thresholds. A threshold that is read from a ROC curve of the
        same price is about as good, so this is for answers that should tell no more than that.

        Parameters
        ----------
        data, response, person, ledger, seed
            As in `private_roc`.
        eps
            Pure epsilon, or ``ZCDP(rho)``, which buys the pure epsilon that implies it. A fifth of
            it is for a count of the positive class.
        rule : {"youden", "topleft"}
            The threshold of the largest sensitivity + specificity, or that whose point on the
            curve is nearest to the corner (0, 1).

        Returns
        -------
        PrivateThreshold
            ``fit.predict(new, "classes", threshold=float(found))`` uses it.

        Raises
        ------
        FormulaError, SchemaError, GuaranteeError, ArgumentError
            One sentence each, on public facts only.

        Notes
        -----
        **Privacy.** As of `private_roc`; *Covered*: the threshold.
        """
        fit = cast("ModelRecord", self)
        opened = scored_records.open_data(fit, data, response, person)
        return private_threshold.private_threshold(fit, opened, eps, rule, ledger, seed)
