"""Private answers that every fit can give about records with outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from privatelr.arguments import suggests_arguments
from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    from privatelr.privacy import Guarantee
    from privatelr.privacy.accounting import AnyLedger
    from privatelr.results.answers import private_roc, scored_records
    from privatelr.results.answers.private_roc import PrivateRoc
    from privatelr.results.fit_record import ModelRecord
else:
    private_roc = lazy_import("privatelr.results.answers.private_roc")
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
