"""The object that `plan` returns: a forecast, with its methods and its page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.design import DesignSpec
from privatelr.errors import count_of
from privatelr.inference import STANDARD_LEVEL
from privatelr.mechanisms import STAGES, StagedCalibration
from privatelr.mechanisms.request import COEFFICIENTS, SCALE
from privatelr.numerics import describe
from privatelr.page_model import Bullets, Code, FactList, Heading, Piece, Table, as_html, as_text
from privatelr.planning import needed_records
from privatelr.planning.alternatives import alternatives, table_of
from privatelr.planning.expected_area import ExpectedCurves, entries_of
from privatelr.planning.expected_intervals import (
    Intervals,
    expected,
    expected_errors,
    pessimistic,
)
from privatelr.planning.forecast import Errors, Simulator
from privatelr.planning.study import Study, counted
from privatelr.privacy import to_json as guarantee_json
from privatelr.results.pages import sentences
from privatelr.results.pages.beside_terms import beside_terms, paid_before

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StudyPlan(ExpectedCurves):
    """A forecast of the errors of a private fit, made before any data is read.

    Attributes
    ----------
    study : Study
        The design, the request, and made-up records in place of the data.
    spec : DesignSpec
        The rows that a fit will have.
    calibration : StagedCalibration
        The numbers that a fit will have: noise, lambda, and the parts of the guarantee.
    assumptions : tuple of str
        The assumptions of the forecast, in words.
    simulator : Simulator
        The calibrated study on its made-up records.
    """

    study: Study
    spec: DesignSpec
    calibration: StagedCalibration
    assumptions: tuple[str, ...]
    simulator: Simulator

    @property
    def errors(self) -> Errors:
        """The errors of the coefficients, in the user's units."""
        return expected_errors(self.simulator)

    @property
    def intervals(self) -> Intervals | None:
        """The expected intervals; None if inference is not requested."""
        return None if self.calibration.moments is None else expected(self.simulator)

    @property
    def pessimistic(self) -> Intervals | None:
        """What nine of ten studies reach under pessimistic guesses."""
        return None if self.calibration.moments is None else pessimistic(self.simulator)

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the coefficients, the intercept first."""
        return self.study.terms

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
        """The plan and alternatives with other guarantees, mechanisms, shares or penalties.

        Each has one row. Standard deviations and widths are relative to those of the plan, as
        geometric means over the covariates. The first call takes some seconds.
        """
        return pd.DataFrame([asdict(row) for row in alternatives(self.simulator)])

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

        Hollow points are conservative intervals. Nothing is drawn where less than half of an effect
        remains under the penalty, because intervals there are short but hardly informative.

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
        return json.dumps(_finite(_document(self)), indent=1, allow_nan=False)

    def __str__(self) -> str:
        return as_text(_page(self))

    def __repr__(self) -> str:
        by_person = self.study.spec.formula.person is not None
        size = f"m = {self.study.n} persons" if by_person else f"n = {self.study.n} records"
        return f"<Plan of {self.study.spec.formula.text!r} for {size}>"

    def _repr_html_(self) -> str:
        return as_html(_page(self))


def _document(plan: StudyPlan) -> dict[str, Any]:
    """The content of the page as a dict."""
    study, calibration = plan.study, plan.calibration.coefficients
    intervals, moments, scale = plan.intervals, plan.calibration.moments, plan.calibration.scale
    counts = plan.calibration.histogram
    return {
        "formula": study.spec.formula.text,
        "loss": describe(study.loss),
        **({"classes": list(study.classes)} if study.classes else {}),
        "n": study.n,
        "counted": None if (found := counted(study)) is None else found._asdict(),
        "d": plan.spec.d,
        "radius": plan.spec.radius,
        "guarantee": guarantee_json(study.request.target),
        "parts": {
            name: guarantee_json(plan.calibration.parts[name].target)
            if name in plan.calibration.parts
            else None
            for name in STAGES
        },
        "placement": calibration.placement,
        "analysis": calibration.analysis,
        "noise": calibration.noise.title,
        "noise_scale": calibration.noise.scale,
        "lambda": calibration.lambda_,
        "lambda_origin": calibration.lambda_origin,
        "scale_mean_sd": scale.mean_sd if scale else None,
        "moments_noise_sd": moments.entry_sd if moments else None,
        "score_bins": counts.bins if counts else None,
        "score_count_sd": counts.count_sd if counts else None,
        **entries_of(plan.roc),
        "mode": intervals.mode if intervals else None,
        "target": intervals.target if intervals else None,
        "noise_to_signal": intervals.noise_to_signal if intervals else None,
        "assumptions": list(plan.assumptions),
        "terms": plan.to_frame().to_dict(orient="records"),
        "alternatives": [asdict(row) for row in alternatives(plan.simulator)],
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _page(plan: StudyPlan) -> list[Piece]:
    """The page: the plan, its alternatives, and the assumptions of both."""
    several = bool(plan.study.classes)
    return [
        Heading(f"Plan of a {'multinomial ' * several}{plan.study.loss.title}, before any data"),
        Code(plan.study.spec.formula.text),
        "",
        FactList(_facts(plan)),
        "",
        _coefficients(plan),
        *_notes(plan),
        "",
        " ".join(_words_on_alternatives(plan)),
        table_of(alternatives(plan.simulator)),
        "",
        "Assumed:",
        Bullets(plan.assumptions),
        "No data were read: all numbers follow from the arguments and these assumptions.",
    ]


def _facts(plan: StudyPlan) -> list[tuple[str, str]]:
    study, calibration = plan.study, plan.calibration.coefficients
    moments, scale, intervals = plan.calibration.moments, plan.calibration.scale, plan.intervals
    counts = plan.calibration.histogram
    target = study.request.target
    facts = [("Promise", sentences.neighbours(str(target), study.n, target.neighbours))]
    if target.is_private:
        bought = {name: stage.target for name, stage in plan.calibration.parts.items()}
        spent = sentences.divided({**bought, COEFFICIENTS: calibration.proven})
        if moments is None:
            alone = spent if len(bought) > 1 else "the coefficients alone"
            more = "spend='inference' adds intervals"
            if plan.study.classes:
                more = "standard errors of several classes are not built"
            spent = f"{alone}: {more}"
        facts.append(("Spent on", spent))
    facts += paid_before([plan.spec], target)
    facts.append(("Mechanism", sentences.mechanism(calibration)))
    if scale is not None:
        parts = plan.calibration.parts.items()
        beside = [stage.target for name, stage in parts if name not in (SCALE, COEFFICIENTS)]
        facts.append(("Scale", sentences.scale(scale, calibration, beside)))
    if counts is not None:
        facts.append(("ROC curve", f"{sentences.scores(counts)}; {plan.roc}"))
    facts += [
        ("Rows", _rows(plan.spec)),
        *beside_terms(plan.spec),
        *_counted(study),
        *sentences.loss(study.loss),
        ("Lambda", sentences.lambda_(calibration)),
    ]
    if intervals is not None and calibration.noise.scale != 0:
        share = max(intervals.sturdy, 1 - intervals.sturdy)
        is_short = intervals.mode != "conservative"
        other = "longer or none" if is_short else "posterior and shorter"
        kind = intervals.mode if math.isfinite(intervals.widest) else "none (shrunk estimates)"
        sure = "" if share == 1 else f" in {share:.0%} of simulated fits, else {other}"
        noise = f"about {intervals.noise_to_signal:.2g} times its smallest eigenvalue"
        words = f"{kind}{sure}; the noise in the information matrix is {noise}"
        facts.append(("Intervals", words))
    return facts


def _counted(study: Study) -> list[tuple[str, str]]:
    """The line about how many records count, if some count less; nothing if all do."""
    found = counted(study)
    if found is None:
        return []
    who = "records" if study.spec.formula.person is None else "persons"
    words = f"{who} add up to {found.total:,.0f} that count fully, under the noise of {study.n:,}"
    return [("Counted", f"{words}, and have the sampling errors of {found.effective:,.0f}")]


def _rows(spec: DesignSpec) -> str:
    rows = f"d = {count_of(spec.d, 'column')}, radius R = {spec.radius:.3g}"
    if spec.standard is None:
        return f"{rows} from {spec.bound_source}"
    return f"{rows}; {sentences.standardised(spec)}"


def _coefficients(plan: StudyPlan) -> Table:
    frame = plan.to_frame()
    columns = {"privacy sd": "privacy_sd", "sampling sd": "sampling_sd", "Std. Error": "std_error"}
    if plan.intervals is not None:
        columns |= {f"{STANDARD_LEVEL:.0%} width": "width", "pessimistic": "pessimistic"}
    shown = [[_number(value) for value in frame[name]] for name in columns.values()]
    shown.append([f"{value:.2f}" for value in frame["kept"]])
    cells = tuple(zip(*shown, strict=True))
    return Table(plan.terms, (*columns, "kept"), cells)


def _words_on_alternatives(plan: StudyPlan) -> list[str]:
    words = [
        "Alternatives: privacy sd and width are multiples of the plan's, over the covariates. "
        "Promises with another epsilon, delta or rho are not equally strong."
    ]
    if plan.study.method.standard:
        words.append("A lambda is about the rows of its line, on the scale that is released there.")
    if plan.calibration.moments is not None:
        words.append("Shares are in the order of what they are spent on.")
    return words


def _notes(plan: StudyPlan) -> list[str]:
    both = "privacy sd: what the noise adds to a coefficient; Std. Error: noise and sample together"
    effect = "effect" if plan.spec.prior is None else "difference from the prior"
    kept = f"kept: the share of a small {effect} that the penalty leaves"
    if plan.intervals is None or plan.intervals.target == "penalised":
        notes = [f"{kept}, since all of this is about the penalised coefficients."]
    else:
        notes = [f"{kept}; errors and widths are about the coefficients without it."]
    width = "width: that of the interval that half of all studies report; pessimistic: see below; "
    notes = [f"{both}; {width if plan.intervals else ''}{notes[0]}"]
    if plan.intervals is not None and plan.intervals.mode == "conservative":
        notes.append(
            "Conservative intervals allow for the worst data that the noise does not rule out, and "
            "are far longer than the standard errors here. More records, a larger eps, fewer "
            "columns or a larger share for inference lead to the shorter kind."
        )
    if plan.intervals is not None and plan.intervals.thin:
        names = ", ".join(plan.terms[place] for place in plan.intervals.thin)
        notes.append(
            f"The noise would hide how much {names} varies, which leaves the penalised "
            f"coefficients alone. Narrower bounds for {names} help most."
        )
    if plan.errors.kept.min() < needed_records.SMALLEST_KEPT:
        if plan.intervals is not None and math.isinf(plan.intervals.widest):
            told = "most studies would have shrunk estimates alone, without intervals."
        elif plan.intervals is None or plan.intervals.target == "penalised":
            told = (
                "an interval is short because the penalty holds the coefficient near 0, and not "
                "because much is known."
            )
        else:
            told = "taking the penalty off multiplies the noise, and intervals are wide."
        notes.append(f"Where little is kept, {told}")
    return notes


def _number(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    return f"{value:.3g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.2e}"
