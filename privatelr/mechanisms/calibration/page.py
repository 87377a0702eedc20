"""A calibration as a notebook shows it: a table of its facts, and one of what other noise costs."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privatelr.mechanisms.calibration.record import Calibration

_CELL = "text-align:left;vertical-align:top"


def calibration_html(calibration: Calibration) -> str:
    """The facts of ``str(calibration)`` as tables."""
    noisy = calibration.noise.scale > 0
    rules = ", ".join(f"{name} {value:.4g}" for name, value in calibration.lambda_rules)
    problem = calibration.problem
    facts = [
        ("Target", str(calibration.target)),
        ("Size", f"n = {problem.n}, d = {problem.d}"),
        ("Rows", f"radius R = {problem.radius:.6g}"),
        ("Lambda", f"{calibration.lambda_:.6g}, {calibration.lambda_origin}"),
        *([("Lambda by rule", rules)] if rules else []),
        *(_noise(calibration) if noisy else []),
    ]
    shown = facts_html(f"{calibration.placement} perturbation, {calibration.noise.title}", facts)
    others = [
        (other.title, "not possible" if math.isinf(other.ratio) else f"{other.ratio:.3g}")
        for other in calibration.alternatives
    ]
    if not others:
        return shown
    chosen = f"{calibration.noise.title} noise, {calibration.bound} (chosen)"
    heading = f"<p>Length of the noise at this lambda and d = {problem.d}, the chosen being 1:</p>"
    return f"{shown}{heading}{table_html([(chosen, '1'), *others])}"


def _noise(calibration: Calibration) -> list[tuple[str, str]]:
    effective = calibration.epsilon_effective
    bought = [] if math.isnan(effective) else [("Effective epsilon", f"{effective:.6g}")]
    return [
        ("Noise", f"scale {calibration.noise.scale:.6g} ({calibration.bound})"),
        *bought,
        (
            "Coefficients",
            f"moved by a standard deviation of {calibration.coefficient_sd:.3g}"
            + (" at most" if calibration.placement == "objective" else "")
            + ", in units that have declared bounds at -1 and 1",
        ),
        (
            "Precision",
            f"minimum certified to a gradient of {calibration.tau:.3g}, released as multiples of "
            f"{calibration.grid:.3g}",
        ),
    ]


def facts_html(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """A title above a table of labels and sentences."""
    return f"<p><strong>{html.escape(title)}</strong></p>{table_html(facts)}"


def table_html(rows: Iterable[tuple[str, str]]) -> str:
    """Two columns, the first in bold."""
    lines = (
        f"<tr><th style='{_CELL}'>{html.escape(label)}</th>"
        f"<td style='{_CELL}'>{html.escape(text)}</td></tr>"
        for label, text in rows
    )
    return f"<table>{''.join(lines)}</table>"
