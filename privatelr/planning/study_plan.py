"""The object that `plan` returns: a forecast, with its methods and its page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd

from privatelr import page_model
from privatelr.arguments import suggests_arguments
from privatelr.design import DesignSpec
from privatelr.errors import ArgumentError, GuaranteeError, count_of
from privatelr.inference import STANDARD_LEVEL
from privatelr.mechanisms import USUAL_DELTA, StagedCalibration, in_order, read_target
from privatelr.mechanisms.request import COEFFICIENTS
from privatelr.mechanisms.stages.histogram import calibrate_histogram
from privatelr.page_model import Bullets, Code, FactList, Heading, Piece, Table
from privatelr.planning import expected_intervals, forecast, needed_records
from privatelr.planning.expected_intervals import MOST_COLUMNS, Intervals, typical_errors
from privatelr.planning.forecast import Errors, ExpectedArea, Simulator, Study, linear_sd
from privatelr.privacy import ApproxDP, Guarantee, PureDP
from privatelr.privacy import to_json as guarantee_json
from privatelr.results.pages import sentences
from privatelr.results.pages.sentences import beside_terms, paid_before
from privatelr.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@suggests_arguments
@dataclass(frozen=True, eq=False, repr=False)
class StudyPlan(page_model.Paged):
    """A forecast of the errors of a private fit, made before any data is read.

    Errors and intervals are computed when they are asked for.

    Attributes
    ----------
    assumptions : tuple of str
        The assumptions of the forecast, in words.
    simulator : Simulator
        The calibrated study on its made-up records.
    """

    assumptions: tuple[str, ...]
    simulator: Simulator

    @property
    def study(self) -> Study:
        """The design, the request, and made-up records in place of the data."""
        return self.simulator.study

    @property
    def spec(self) -> DesignSpec:
        """The rows that a fit will have."""
        return self.simulator.spec

    @property
    def calibration(self) -> StagedCalibration:
        """The numbers that a fit will have: noise, lambda, and the parts of the guarantee."""
        return self.simulator.stages

    @cached_property
    def errors(self) -> Errors:
        """The errors of the coefficients, in the user's units.

        They are about the target of the intervals, or the penalised coefficients without any.
        """
        target = "penalised" if self.intervals is None else self.intervals.target
        return forecast.errors(self.simulator, target)

    @cached_property
    def intervals(self) -> Intervals | None:
        """The expected intervals.

        None if inference is not requested, and for designs of more than 20 columns.
        """
        if not expected_intervals.has_intervals(self.simulator):
            return None
        return expected_intervals.intervals(self.simulator, range(len(self.terms)))

    @cached_property
    def pessimistic(self) -> Intervals | None:
        """What nine of ten studies reach under pessimistic guesses; None without intervals."""
        usual = self.intervals
        return usual and expected_intervals.pessimistic(self.simulator, usual)

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the coefficients, the intercept first."""
        return self.study.terms

    @property
    def roc(self) -> ExpectedArea | None:
        """What the curve that the fit buys is expected to say; None if it buys none.

        It has the ``value`` of the area, its ``std_error``, and the parts of that: ``sampling_sd``,
        ``privacy_sd`` and ``binning_sd``.
        """
        counts = None if self.study.classes else self.calibration.histogram
        return None if counts is None else forecast.expected_area(self.simulator, counts)

    def private_roc(
        self, eps: float | Guarantee = 1.0, *, delta: float = 0.0, n: int | None = None
    ) -> ExpectedArea:
        """What `Fit.private_roc` is expected to say of other records, at a price of its own.

        Parameters
        ----------
        eps, delta
            The price, as in `Fit.private_roc`.
        n : int, optional
            The number of records that are scored; by default that of the plan.

        Raises
        ------
        ArgumentError, GuaranteeError
            As in `Fit.private_roc`.
        """
        if self.study.classes:
            raise ArgumentError("a ROC curve is about two classes, and this plan is about more.")
        size = needed_records.read_size(self.study.n if n is None else n)
        about = self.study.request.target.neighbours
        target = read_target(eps, delta, plain=None, neighbours=about)
        return forecast.expected_area(self.simulator, calibrate_histogram(size, target))

    def to_frame(self) -> pd.DataFrame:
        """One row per coefficient, in the user's units.

        The columns are term (after class, if there are several), privacy_sd, sampling_sd, std_error
        (both together), width (that of the 95% interval; NaN if inference is not requested),
        pessimistic (the width that nine of ten studies reach under pessimistic guesses), and kept
        (the share of a small effect that remains under the penalty).
        """
        classes, names = zip(*self.study.named, strict=True)
        return pd.DataFrame(
            ({"class": classes} if self.study.classes else {})
            | {
                "term": names,
                "privacy_sd": self.errors.privacy_sd,
                "sampling_sd": self.errors.sampling_sd,
                "std_error": self.errors.sd,
                "width": np.nan if self.intervals is None else self.intervals.width,
                "pessimistic": np.nan if self.pessimistic is None else self.pessimistic.width,
                "kept": self.errors.kept,
            }
        )

    def table(self) -> pd.DataFrame:
        """What another delta or another epsilon would change, with the plan itself first.

        Each promise has one row, with its lambda. ``privacy_sd`` and, for inference, the
        ``std_error`` that fits report are multiples of the plan's, as geometric means over the
        covariates, by formulas that are linear in the noise. Promises are not equally strong.
        """
        return pd.DataFrame(_promises(self.simulator))

    def needed_n(self, width: float, term: str | None = None, *, share: float = 0.5) -> int:
        """The smallest number of records for which an interval has at most this length.

        Parameters
        ----------
        width : float
            Length of the 95% interval, in the units of the coefficient.
        term : str, optional
            A coefficient, or a term such as ``"race"``, of which the widest interval counts; by
            default all but the intercept.
        share : float
            The share of simulated studies whose interval is no longer, from 0.05 to 0.95. Each has
            noise and a sample of its own; the guesses are the plan's.

        Raises
        ------
        ArgumentError
            If the term is unknown, or the width or the share is not such a number.
        GuaranteeError
            If inference is not requested, or no number of records up to 1e8 is enough.
        """
        return needed_records.needed_n(self.study, width, term, share)

    def needed_eps(self, width: float, term: str | None = None, *, share: float = 0.5) -> float:
        """The smallest epsilon for which an interval has at most this length.

        For a plan under zCDP it is the smallest rho.

        Parameters
        ----------
        width, term, share
            The same as in `needed_n`.

        Raises
        ------
        ArgumentError
            In the same cases as `needed_n`.
        GuaranteeError
            If inference is not requested, or if 1000 is not enough.
        """
        return needed_records.needed_eps(self.study, width, term, share)

    def plot(
        self,
        term: str | None = None,
        *,
        n: Sequence[int] | None = None,
        eps: Sequence[float] | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the length of an interval against epsilon, with a line for each number of records.

        Nothing is drawn where less than half of an effect remains under the penalty, because
        intervals there are short but hardly informative.

        Parameters
        ----------
        term : str, optional
            The coefficient; by default the first that is not the intercept.
        n : sequence of int, optional
            Numbers of records; by default a third, one, three and ten times the plan's.
        eps : sequence of float, optional
            Epsilons (rhos, for a plan under zCDP); by default from a tenth to ten times the
            plan's.
        ax : Axes, optional
            The axes to draw on; by default those of a new figure of pyplot.

        Raises
        ------
        ArgumentError, GuaranteeError
            If an argument is wrong, or inference is not requested.
        MissingDependencyError
            If matplotlib is not installed.
        """
        return needed_records.plot_widths(self.study, term, n, eps, ax)

    def to_json(self) -> str:
        """The content of the page as JSON, with null for undefined numbers."""
        written = msgspec.json.encode(_document(self), enc_hook=float)
        return msgspec.json.format(written, indent=1).decode()

    def __repr__(self) -> str:
        size = sentences.size(self.study.n, self.study.request.target.neighbours)
        return f"<Plan of {self.study.spec.formula.text!r} for {size}>"

    def page(self) -> list[Piece]:
        """The plan, what other promises would change, and the assumptions."""
        several = bool(self.study.classes)
        title = f"Plan of a {'multinomial ' * several}{self.study.loss.title}, before any data"
        return [
            Heading(title),
            Code(self.study.spec.formula.text),
            "",
            FactList(_facts(self)),
            "",
            _coefficients(self),
            *_notes(self),
            *_changes(self),
            "",
            "Assumed:",
            Bullets(self.assumptions),
            "No data were read: all numbers follow from the arguments and these assumptions.",
        ]


def _promises(sim: Simulator) -> Iterator[dict[str, Any]]:
    """The plan, and the same study with other promises, where one is possible."""
    rows, study, target = forecast.rows_of(sim.study, None), sim.study, sim.study.request.target
    others = [study]
    if target.is_private:
        price = forecast.price_of(study)[1]
        others += [forecast.at_price(study, 2 * price), forecast.at_price(study, price / 2)]
    if isinstance(target, PureDP | ApproxDP):
        plain = PureDP(target.epsilon, target.neighbours)
        approximate = ApproxDP(target.epsilon, USUAL_DELTA, target.neighbours)
        swapped = plain if isinstance(target, ApproxDP) else approximate
        others.append(replace(study, request=replace(study.request, target=swapped)))
    noise, whole = linear_sd(sim)[rows], typical_errors(sim, rows)
    for other in others:
        with suppress(GuaranteeError):  # no noise is enough, or none is proven to be
            made = sim if other is study else forecast.simulate(other)
            yield {
                "guarantee": str(made.study.request.target),
                "lambda_": made.problem.lambda_,
                "privacy_sd": _ratio(linear_sd(made)[rows], noise),
                "std_error": _ratio(typical_errors(made, rows), whole),
            }


def _ratio(of: FloatArray, over: FloatArray) -> float:
    """The geometric mean of ratios."""
    with np.errstate(all="ignore"):  # there may be no noise, or no standard error
        return float(np.exp(np.mean(np.log(of / over))))


def _parts(plan: StudyPlan) -> dict[str, Guarantee]:
    """The parts of the guarantee."""
    stages = plan.calibration
    bought = {name: stage.target for name, stage in stages.parts.items()}
    return in_order({**bought, COEFFICIENTS: stages.coefficients.proven})


def _document(plan: StudyPlan) -> dict[str, Any]:
    """The content of the page as a dict, with the numbers of its sentences."""
    study, calibration, intervals = plan.study, plan.calibration.coefficients, plan.intervals
    numbers, area = forecast.counted(study), plan.roc
    return {
        "formula": study.spec.formula.text,
        "classes": list(study.classes),
        "n": study.n,
        "d": plan.spec.d,
        "radius": plan.spec.radius,
        "guarantee": guarantee_json(study.request.target),
        "parts": {name: guarantee_json(part) for name, part in _parts(plan).items()},
        "lambda": calibration.lambda_,
        "noise_scale": calibration.noise.scale,
        "counted": numbers and numbers._asdict(),
        "auc": area and area.value,
        "auc_std_error": area and area.std_error,
        "mode": intervals and intervals.mode,
        "target": intervals and intervals.target,
        "noise_to_signal": intervals and intervals.noise_to_signal,
        "facts": dict(_facts(plan)),
        "terms": plan.to_frame().to_dict(orient="records"),
        "promises": list(_promises(plan.simulator)),
        "assumptions": list(plan.assumptions),
    }


def _facts(plan: StudyPlan) -> list[tuple[str, str]]:
    study, stages, intervals = plan.study, plan.calibration, plan.intervals
    calibration, target = stages.coefficients, plan.study.request.target
    facts = [("Promise", sentences.neighbours(str(target), study.n, target.neighbours))]
    if target.is_private:
        parts = _parts(plan)
        words = sentences.divided(parts) if len(parts) > 1 else "the coefficients alone"
        if study.classes:
            words += ": standard errors of several classes are not built"
        elif stages.moments is None:
            words += ": spend='inference' adds intervals"
        facts.append(("Spent on", words))
    facts += paid_before([plan.spec], target)
    facts.append(("Mechanism", sentences.mechanism(calibration)))
    if stages.scale is not None:
        facts.append(("Scale", sentences.scale(stages.scale, calibration, _parts(plan))))
    if stages.histogram is not None:
        facts.append(("ROC curve", f"{sentences.scores(stages.histogram)}; {plan.roc}"))
    facts += [
        ("Rows", _rows(plan)),
        *beside_terms(plan.spec),
        *_counted(study),
        *sentences.loss(study.loss),
        ("Lambda", f"{calibration.lambda_:.3g}, {calibration.lambda_origin}"),
    ]
    if intervals is not None and calibration.noise.scale != 0:
        facts.append(("Intervals", _kind_of(intervals)))
    elif intervals is None and stages.moments is not None:
        words = f"not forecast for more than {MOST_COLUMNS} columns; a fit reports them"
        facts.append(("Intervals", words))
    return facts


def _kind_of(intervals: Intervals) -> str:
    share = max(intervals.sturdy, 1 - intervals.sturdy)
    other = "longer or none" if intervals.mode != "conservative" else "posterior and shorter"
    kind = intervals.mode if math.isfinite(intervals.widest) else "none (shrunk estimates)"
    sure = "" if share == 1 else f" in {share:.0%} of simulated fits, else {other}"
    noise = f"about {intervals.noise_to_signal:.2g} times its smallest eigenvalue"
    return f"{kind}{sure}; the noise in the information matrix is {noise}"


def _counted(study: Study) -> list[tuple[str, str]]:
    """The line about how many records count, if some count less; nothing if all do."""
    found = forecast.counted(study)
    if found is None:
        return []
    who = "records" if study.spec.formula.person is None else "persons"
    words = f"{who} add up to {found.total:,.0f} that count fully, under the noise of {study.n:,}"
    return [("Counted", f"{words}, and have the sampling errors of {found.effective:,.0f}")]


def _rows(plan: StudyPlan) -> str:
    spec, length = plan.spec, plan.simulator.length
    rows = f"d = {count_of(spec.d, 'column')}, radius R = {spec.radius:.3g}"
    if spec.standard is None:
        return f"{rows} from {spec.bound_source}"
    likely = "" if length is None else f" (most likely {length:.3g} lengths of a typical one)"
    return f"{rows}; {sentences.standardised(spec)}{likely}"


def _coefficients(plan: StudyPlan) -> Table:
    frame = plan.to_frame()
    columns = {"privacy sd": "privacy_sd", "sampling sd": "sampling_sd", "Std. Error": "std_error"}
    if plan.intervals is not None:
        columns |= {f"{STANDARD_LEVEL:.0%} width": "width", "pessimistic": "pessimistic"}
    shown = [[_number(value) for value in frame[name]] for name in columns.values()]
    shown.append([f"{value:.2f}" for value in frame["kept"]])
    cells = tuple(zip(*shown, strict=True))
    return Table(plan.terms, (*columns, "kept"), cells)


def _changes(plan: StudyPlan) -> list[Piece]:
    """What another delta or epsilon would change; nothing of a plan without privacy."""
    rows = list(_promises(plan.simulator))
    if len(rows) < 2:
        return []
    columns = {"lambda": "lambda_", "privacy sd": "privacy_sd"}
    columns |= {"Std. Error": "std_error"} if plan.intervals is not None else {}
    cells = tuple(tuple(_number(row[name]) for name in columns.values()) for row in rows)
    words = (
        "Another promise instead, which is stronger or weaker: errors are about these multiples of "
        "the plan's, over the covariates."
    )
    return ["", words, Table(tuple(row["guarantee"] for row in rows), tuple(columns), cells)]


def _notes(plan: StudyPlan) -> list[str]:
    intervals = plan.intervals
    is_shrunk = intervals is None or intervals.target == "penalised"
    effect = "effect" if plan.spec.prior is None else "difference from the prior"
    width = "width: that of the interval that half of all studies report; pessimistic: see below; "
    subject = (
        ", since all of this is about the penalised coefficients"
        if is_shrunk
        else "; errors and widths are about the coefficients without it"
    )
    notes = [
        "privacy sd: what the noise adds to a coefficient; Std. Error: noise and sample together; "
        f"{width if intervals else ''}kept: the share of a small {effect} that the penalty leaves"
        f"{subject}."
    ]
    if intervals is not None and intervals.mode == "conservative":
        notes.append(
            "Conservative intervals allow for the worst data that the noise does not rule out, and "
            "are far longer than the standard errors here. More records, a larger eps, fewer "
            "columns or a larger share for inference lead to the shorter kind."
        )
    if intervals is not None and intervals.thin:
        names = ", ".join(plan.terms[place] for place in intervals.thin)
        notes.append(
            f"The noise would hide how much {names} varies, which leaves the penalised "
            f"coefficients alone. Narrower bounds for {names} help most."
        )
    if plan.errors.kept.min() < needed_records.SMALLEST_KEPT:
        told = "taking the penalty off multiplies the noise, and intervals are wide"
        if intervals is not None and math.isinf(intervals.widest):
            told = "most studies would have shrunk estimates alone, without intervals"
        elif is_shrunk:
            told = (
                "an interval is short because the penalty holds the coefficient near 0, and not "
                "because much is known"
            )
        notes.append(f"Where little is kept, {told}.")
    return notes


def _number(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.2e}"
