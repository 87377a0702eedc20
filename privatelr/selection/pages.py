"""The kind of fits that choose columns: their lines on pages, cards and in tables."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.design import DesignSpec, EntryBoundedMatrix
from privatelr.errors import count_of
from privatelr.inference import Inference
from privatelr.mechanisms import STAGES
from privatelr.mechanisms.request import ROC
from privatelr.numerics import describe
from privatelr.numerics.rows import EntryRows
from privatelr.page_model import Listing, Piece, Table
from privatelr.results.fit_kind import Facts, FitKind
from privatelr.results.pages.coefficient_table import FEW, shown_rows
from privatelr.results.pages.sentences import BY_BOUNDS, UNSEEN, divided, roc_facts
from privatelr.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from privatelr.selection.selected_fit import SelectedFit

_MOST_ROWS = 200
"""The card lists at most this number of chosen columns."""


def _bought(fit: SelectedFit) -> str:
    bought = f": the choices{'' if fit.release.path is None else ' and their order'}"
    if (counts := fit.release.histogram) is None:
        return bought
    parts = {"choices": fit.calibration.target, "roc": counts.calibration.target}
    return f"{bought}, and counts of scores; {divided(parts)}"


def _facts(fit: SelectedFit, _: Inference | None) -> Facts:
    response = ("Response", fit.spec.response.describe())
    return [*fit.calibration.facts, ("Rows", _entry_bounds(fit.spec)), response, *roc_facts(fit)]


def _entry_bounds(spec: DesignSpec | EntryBoundedMatrix) -> str:
    size = f"entries of size {spec.x_bound:.3g} at most"
    if not spec.has_names:
        return f"{size}, others are cut off there; {UNSEEN}"
    if not spec.unbounded:
        return f"{size} from declared bounds; {UNSEEN}"
    names = ", ".join(spec.unbounded)
    return f"{size}: no bounds for {names}, whose values are cut off there; {BY_BOUNDS}"


def _details(fit: SelectedFit) -> Facts:
    problem = fit.calibration.problem
    rows = f"d = {count_of(problem.d, 'column')}, no entry above {problem.x_bound:.6g} in size"
    return [("Design", rows), ("Loss", describe(fit.loss))]


def _rows(fit: SelectedFit, estimates: FloatArray) -> list[int]:
    """Positions of the coefficients on the page; of many only those that are not zero."""
    if len(estimates) <= FEW:
        return shown_rows(estimates)
    coef = fit.release.coef
    return [row for row in shown_rows(coef, FEW) if coef[row] != 0] or [0]


def _columns(fit: SelectedFit, shown: list[int]) -> tuple[dict[str, list[str]], FloatArray]:
    plus, minus = np.split(fit.release.counts, 2)
    columns = {"times +": plus, "times -": minus} if fit.release.exact is None else {}
    cells = {header: [str(times) for times in counts[shown]] for header, counts in columns.items()}
    return cells, np.zeros(len(shown))


def _notes(fit: SelectedFit, table: Table) -> tuple[list[str], list[str]]:
    words, coef, unit, shown = [], fit.release.coef, fit.calibration.unit, len(table.names)
    if shown < len(coef):
        words.append(
            f"{np.count_nonzero(coef)} of {len(coef)} coefficients are not zero; {shown} of them "
            "are shown."
        )
    if fit.release.exact is None:
        words.append(
            "A column was chosen as it is (times +) or with its sign turned (times -). The "
            f"difference over all choices{f', {unit:.3g} times,' if unit != 1 else ''} is its "
            "coefficient where declared bounds are mapped to -1 and 1; the table has it in the "
            "units of the column, and the intercept takes up the centres of the bounds."
        )
    return words, ["the counts of choices"]


def _released(fit: SelectedFit) -> list[Piece]:
    """The nonzero coefficients, and how often their columns were chosen."""
    d, estimates = fit.spec.d, fit.coef
    plus, minus = np.split(fit.release.counts, 2)
    shown = np.flatnonzero(fit.release.coef).tolist()
    rows = [
        (estimates.index[row], f"{estimates.iloc[row]:.6g}", str(plus[row]), str(minus[row]))
        for row in shown[:_MOST_ROWS]
    ]
    ordered = ", the order of the choices" if fit.release.path is not None else ""
    ordered += ", the counts of scores by class" if fit.has_roc else ""
    more = f" The table shows {_MOST_ROWS} of {len(shown)}." if len(shown) > _MOST_ROWS else ""
    return [
        Listing(("Coefficient", "Estimate", "Times +", "Times -"), rows),
        f"These numbers{ordered}, and whatever is computed from them, are all that was released. "
        f"{d - len(shown)} of {d} coefficients are zero in the units of the design.{more}",
    ]


def _checked(fit: SelectedFit) -> list[str]:
    checked = [
        "The number of choices and their law are enough for the guarantee, by the proof that the "
        "fit itself used.",
        "The coefficients are what the counts of choices give.",
    ]
    if fit.has_roc:
        checked.append(
            "So is the law of the noise on the counts of scores for its part, and the parts add up "
            "to the whole."
        )
    return checked


def _glance(fit: SelectedFit) -> dict[str, object]:
    problem = fit.calibration.problem
    return {
        "mechanism": fit.calibration.mechanism,
        "choices": int(fit.release.counts.sum()),
        "nonzero": int(np.count_nonzero(fit.release.coef)),
        "x_bound": problem.x_bound,
        "loss": problem.loss.name,
        **problem.loss.parameters,
    }


def _compared(fit: SelectedFit, _: str) -> dict[str, str]:
    penalty = getattr(fit.calibration.problem, "lambda_", None)  # not every choice has one
    return {
        "mechanism": "none" if fit.release.exact is not None else fit.calibration.mechanism,
        "loss": describe(fit.loss),
        "lambda": "" if penalty is None else f"{penalty:.3g}",
        "scale": "",
        "inference": "",
    }


def _link_of_matrix(
    fit: SelectedFit, matrix: Any, labels: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Linear predictors of sparse rows, whose entries are bounded as in the fit."""
    bounds = {"x_bound": fit.calibration.problem.x_bound, "intercept": fit.spec.intercept}
    rows = EntryRows(matrix, labels, **bounds)
    return rows.margins(fit.release.coef), rows.y != 0


def _seen(fit: SelectedFit) -> list[str]:
    return [STAGES[ROC].seen()] if fit.has_roc else []


CHOICES: FitKind[SelectedFit] = FitKind(
    title=attrgetter("calibration.title"),
    events=attrgetter("release.stages.events"),
    bought=_bought,
    facts=_facts,
    details=_details,
    noise=lambda _, places: (np.full(len(places), np.nan), np.full(len(places), np.nan)),
    rows=_rows,
    columns=_columns,
    notes=_notes,
    seen=_seen,
    released=_released,
    checked=_checked,
    glance=_glance,
    compared=_compared,
    link_of_matrix=_link_of_matrix,
)
