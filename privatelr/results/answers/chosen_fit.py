"""`choose`: one of several fits, chosen privately by how well each predicts other records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from privatelr import design, page_model
from privatelr.arguments import suggests_arguments
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    SchemaError,
    listed,
    require_choice,
    show,
)
from privatelr.mechanisms.candidate_choice import (
    ChoiceCalibration,
    ScoreName,
    calibrate_choice,
    choose_candidate,
    total_score,
    total_score_of_persons,
)
from privatelr.page_model import Piece
from privatelr.privacy import REPLACE_PERSON, Guarantee, NonPrivate
from privatelr.privacy.accounting import AnyLedger, Entry
from privatelr.results import predict
from privatelr.results.answers.named_fits import named_fits
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.answers.scored_records import (
    Evaluation,
    open_data,
    read_price,
    require_payable,
    require_pure,
    scores_of_table,
)
from privatelr.results.fit_record import ModelRecord
from privatelr.results.pages.comparison import together
from privatelr.results.pages.sentences import paid_before
from privatelr.sources import Batch
from privatelr.types import FloatArray

_SCORES: Mapping[ScoreName, str] = {
    "auc": "area under the ROC curve",
    "accuracy": "share of records in their right class",
    "brier": "mean squared error of the probabilities (Brier score)",
}
_TAKES = (
    'fits in a mapping from labels, such as {"small": fit1, "full": fit2}, or calls without '
    "arguments that make them"
)
_CHANCE = 0.05
"""Chance of a fit that is worse by the difference on the page."""


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChosenFit(PaidAnswer):
    """A fit that was chosen privately among several; no score is kept or told.

    Attributes
    ----------
    place : int
        Which of the candidates was chosen, counted from 0.
    labels : tuple of str
        The labels of all candidates.
    candidates : tuple of ModelRecord
        All candidates, each of which was paid for by itself.
    calibration : ChoiceCalibration
        The score, the number of records that were scored, and the price of the choice.
    choice_guarantee : Guarantee
        The guarantee of the choice alone: what a record pays that was scored and that no candidate
        was trained on.
    entry : Entry or None
        The entry that a ledger was charged with for the choice.
    """

    place: int
    labels: tuple[str, ...]
    candidates: tuple[ModelRecord, ...]
    calibration: ChoiceCalibration
    choice_guarantee: Guarantee
    entry: Entry | None = None

    @property
    def label(self) -> str:
        """The label of the chosen fit."""
        return self.labels[self.place]

    @property
    def fit(self) -> ModelRecord:
        """The chosen fit."""
        return self.candidates[self.place]

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all candidates together with the choice.

        It holds for every record, even for one that was scored and that all fits were trained on.
        What was paid before the candidates for bounds and levels is not in it; the page lists it.
        """
        return together(self.candidates, [(self.choice_guarantee, self.calibration.events)])

    @property
    def candidates_guarantee(self) -> Guarantee:
        """The guarantee of all candidates together: what a record pays that was not scored."""
        return together(self.candidates)

    @property
    def nobs(self) -> int:
        """Number of records that were scored; it is public."""
        return self.calibration.n

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        made = self.calibration
        whose, scored = "records", f"n = {made.n} scored records"
        for_all = "for every record; neighbours replace one of them"
        if made.target.neighbours is REPLACE_PERSON:
            whose, scored = "persons", f"m = {made.n} persons whose records were scored"
            for_all = "for every person; neighbours replace all records of one of them"
        facts = [
            ("Promise", f"{self.guarantee}, {for_all}"),
            (
                "Candidates",
                f"{self.candidates_guarantee}; for the {whose} that they were trained on",
            ),
            ("Choice", f"{self.choice_guarantee}; for the {scored}"),
            *paid_before(
                [fit.spec for fit in self.candidates], self.guarantee, "the fits, the choice"
            ),
            ("Score", _SCORES[made.score]),
            ("Mechanism", f"permute-and-flip among {made.candidates}: {listed(self.labels)}"),
            ("Resolution", _resolution(made)),
        ]
        return [
            page_model.Heading(f"Chosen privately: {page_model.on_one_line(self.label)}"),
            page_model.Code(self.fit.formula),
            "",
            page_model.FactList(facts),
            "",
            _APART,
            "",
            self._publishable(),
        ]

    def _publishable(self) -> str:
        """A sentence on what may leave the office under the promise."""
        if isinstance(self.guarantee, NonPrivate):
            return (
                "There is no promise for all of this together. What has one of its own, on a line "
                "above, keeps it for the records of that line."
            )
        return (
            "The choice and every candidate, chosen or not, may be published under the promise. "
            "Scores were not released, and nothing else of the scored records was."
        )

    def __repr__(self) -> str:
        return f"<ChosenFit {self.label!r} of {len(self.labels)}, {self.guarantee}>"


_APART = (
    "If no scored record was trained on, and public positions alone decided which records were "
    "scored, a record pays for the candidates or for the choice, and not for both."
)


def _resolution(made: ChoiceCalibration) -> str:
    gap = made.resolution(_CHANCE)
    if gap >= 1:
        return "none: with this n and price the choice is nearly one by lot"
    where = " if the classes are of one size, else more" if made.score == "auc" else ""
    return f"fits that are worse by {gap:.2g} have a chance of at most {_CHANCE:g}{where}"


@suggests_arguments
def choose(
    fits: Mapping[str, Any],
    data: Any,
    eps: float | Guarantee,
    *,
    score: ScoreName = "auc",
    response: Any = None,
    person: Any = None,
    ledger: AnyLedger | None = None,
    seed: int | None = None,
) -> ChosenFit:
    """Choose one of several fits privately, by how well each predicts records with outcomes.

    Parameters
    ----------
    fits : mapping
        Maps labels to fits of this package, of any formula and loss and also from files, which
        have one response; or to calls without arguments that make them, such as
        ``lambda: dplr("y ~ age", train, eps=0.5)``, so that one expression makes and pays for all
        that its guarantee is about. Calls are made in their order, once the other arguments are
        known to be right; if one fails, those before it are paid for. All are about records, or all
        about the same persons, by the same column and number of records per person.
    data
        The records to score, with the columns of all formulas: best a part of the data that was
        set apart beforehand, by public positions, because a fit does too well on its own records,
        and for the price.
    eps : float, PureDP or ZCDP
        The price of the choice: a pure epsilon, or a rho, of which the choice uses the largest pure
        epsilon that implies it.
    score : {"auc", "accuracy", "brier"}
        What is compared: the area under the ROC curve, the share of records in their right class
        at the threshold of each fit, or the mean squared error of the probabilities. A record
        that a fit cannot predict counts for it as for a coin.
    response
        The outcomes of the records, if they are not a column of `data`, as for fits of
        ``dplr(y, X)``.
    person
        Who the records are of, beside `response`, for fits about persons; as in `private_roc`.
    ledger : Ledger or path, optional
        Account to charge for the choice before the records are scored; as in `dplr`. It is not
        charged for the candidates, which their own calls charge.
    seed : int, optional
        Repeats the choice, for tests and teaching. Voids the guarantee.

    Returns
    -------
    ChosenFit
        With the chosen ``fit`` and the ``guarantee`` of all candidates and of the choice.

    Raises
    ------
    ArgumentError, FormulaError, GuaranteeError, SchemaError
        One sentence each, on public facts only.

    Notes
    -----
    **Privacy.** *Covered*: the choice, by ``choice_guarantee``, and with all candidates by
    ``guarantee``. *Neighbours*: one record is replaced, in whichever data it is, or all records of
    a person. *Assumed public*: the fits, the number of records (or of persons), names and types.
    *Not covered*: time and memory; and records of candidates without a guarantee.

    The promise is of all releases together, as `compare` adds them up, at prices that were fixed
    before the first of them; it holds whatever the data have in common. A record pays less where
    no scored record was trained on. Replacing a record of the training data then
    changes the candidates, of which the choice is a function with the scored records fixed, and
    replacing a scored record changes the choice alone. This needs a split that values have no part
    in, since otherwise a replaced record could move other records from one part to the other.

    Examples
    --------
    >>> from privatelr import choose, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> train, test = votes[:700], votes[700:]
    >>> fits = {
    ...     "small": dplr("vote ~ age", train, eps=0.5, **public),
    ...     "full": dplr("vote ~ age + selfLR", train, eps=0.5, **public),
    ... }
    >>> chosen = choose(fits, test, eps=0.2, score="auc")

    Or with the calls in it, whose prices are a part of ``chosen.guarantee`` as well:

    >>> calls = {
    ...     "small": lambda: dplr("vote ~ age", train, eps=0.5, **public),
    ...     "full": lambda: dplr("vote ~ age + selfLR", train, eps=0.5, **public),
    ... }
    >>> chosen = choose(calls, test, eps=0.2, score="auc")
    >>> len(chosen.fit.predict(test))
    244
    """
    if not isinstance(fits, Mapping) or len(fits) < 2:
        raise ArgumentError(
            f"fits of type {type(fits).__name__}: choose takes two or more {_TAKES}."
        )
    require_choice(ArgumentError, "score", score, tuple(_SCORES))
    if any(map(callable, fits.values())):
        require_payable(eps, data, ledger, seed)
    named = _read_candidates(_called(fits))
    opened = {label: open_data(fit, data, response, person) for label, fit in named.items()}
    for label, fit in named.items():
        _require_score(label, fit, score)
    return _release(named, opened, score, eps, ledger, seed)


def _called(fits: Mapping[str, Any]) -> dict[str, Any]:
    """Make the fits that are given as calls, in their order."""
    calls = {label for label, given in fits.items() if callable(given)}
    for label, given in fits.items():
        if label not in calls and not isinstance(given, ModelRecord):
            raise ArgumentError(f"choose: {show(given)} is no fit; it takes {_TAKES}.")
    return {label: given() if label in calls else given for label, given in fits.items()}


def _read_candidates(fits: Mapping[str, Any]) -> dict[str, ModelRecord]:
    """Read two fits or more, of one response and about the same neighbours."""
    named: dict[str, ModelRecord] = named_fits("choose", ModelRecord, _TAKES, fits)
    if any(fit.spec.response.kind == "classes" for fit in named.values()):
        raise ArgumentError("choose: it takes fits of two classes, and one has more.")
    first, *others = named
    responses = {label: fit.spec.response.describe() for label, fit in named.items()}
    for label in others:
        if responses[label] != responses[first]:
            raise ArgumentError(
                f"fits: the response of {show(label)} is {responses[label]}, and that of "
                f"{show(first)} is {responses[first]}; choose takes fits of one response."
            )
    together(named.values(), what="choose")  # refuses what cannot be added up
    if len({fit.spec.formula.person for fit in named.values()}) > 1:
        raise GuaranteeError(
            "fits: choose takes fits about records, or about persons with one number of records "
            "per person."
        )
    formulas = [fit.spec.formula for fit in named.values()]
    about = [[one and one.label for one in (own.subset, own.by)] for own in formulas]
    if about != [about[0]] * len(about):
        raise ArgumentError("fits: choose takes fits of one subset, or of one stratum.")
    return named


def _require_score(label: str, fit: ModelRecord, score: ScoreName) -> None:
    """Refuse a score that a fit does not have; looks at public facts only."""
    if score == "brier" and fit.loss.probability is None:
        raise ArgumentError(
            f"score='brier': {show(label)} has margins and no probabilities; take score='auc' or "
            "score='accuracy'."
        )
    if score == "accuracy" and isinstance(fit.threshold, str) and not fit.has_roc:
        raise GuaranteeError(
            f"score='accuracy': the threshold of {show(label)} was learned from its training data, "
            "and is not private; fit it with a number for threshold, or take score='auc'."
        )


def _release(
    fits: Mapping[str, ModelRecord],
    opened: Mapping[str, Evaluation],
    score: ScoreName,
    eps: Any,
    ledger: Any,
    seed: Any,
) -> ChosenFit:
    """Pay for a choice, and only then score the records and choose."""
    first = next(iter(opened.values()))
    price = read_price(eps, 0.0, ledger, seed, "choose", first)
    calibration = calibrate_choice(first.n, len(fits), score, require_pure(price.target))
    entry = price.pay(calibration.events, f"choice among {listed(fits)}")
    scores = scores_of(opened, score)
    place = choose_candidate(scores, calibration, price.randomness)
    labels, candidates = tuple(fits), tuple(fits.values())
    return ChosenFit(place, labels, candidates, calibration, price.guarantee, entry)


def scores_of(opened: Mapping[str, Evaluation], score: ScoreName) -> FloatArray:
    """Return the exact score ``(candidates,)`` of each fit, which is not private.

    All fits are scored by the same outcomes, as the proof in `total_score` needs it, and by the
    same shares of persons.
    """
    found, outcomes = [], None
    for evaluation, (link, label) in zip(opened.values(), scored(opened), strict=True):
        outcomes = label if outcomes is None else outcomes
        compared = score, outcomes, _predictions(evaluation.fit, score, link)
        if evaluation.person is None:
            found.append(total_score(*compared))
        else:
            shares = evaluation.outcomes.shares
            found.append(total_score_of_persons(*compared, shares, evaluation.n))
    return np.array(found)


def _predictions(fit: ModelRecord, score: ScoreName, link: FloatArray) -> FloatArray:
    """Return what `total_score` takes; NaN where the linear predictor is."""
    if score == "auc":
        return link
    scores = predict.score(fit.loss, link)
    if score == "brier":
        return scores
    with np.errstate(invalid="ignore"):
        classes = np.where(scores > predict.cut(fit, None), 1.0, -1.0)
    return np.where(np.isnan(scores), np.nan, classes)


def scored(opened: Mapping[str, Evaluation]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Linear predictors and labels ``(n,)`` of each of several fits; private.

    Of partitions and streams all fits score the same pass, so that no record is another one to the
    next fit. They need 8 bytes for each record and fit in this process.
    """
    first = next(iter(opened.values()))
    if not first.is_in_parts:
        yield from (evaluation.scores() for evaluation in opened.values())
        return
    fits = [evaluation.fit for evaluation in opened.values()]
    formulas = [fit.spec.formula for fit in fits]
    read = dict.fromkeys(name for one in formulas for name in (*one.scored, *one.selecting))
    parts = first.data.over(tuple(read), partial(_of_part, fits))
    labels = np.concatenate([label for label, _ in parts])
    if len(labels) != first.n:
        raise SchemaError(design.CHANGED)
    for place in range(len(fits)):
        yield np.concatenate([links[place] for _, links in parts]), labels


def _of_part(fits: Sequence[ModelRecord], part: Batch) -> tuple[FloatArray, list[FloatArray]]:
    links, label = [], np.zeros(0)
    for fit in fits:  # of one response
        link, label = scores_of_table(fit, part, part)
        links.append(link)
    return label, links
