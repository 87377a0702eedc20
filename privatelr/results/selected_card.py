"""What the privacy card says of a model of chosen columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.numerics.losses import describe
from privatelr.privacy.guarantees import NonPrivate
from privatelr.results.card_facts import common_facts
from privatelr.results.card_layout import Paragraph, Piece, Table

if TYPE_CHECKING:
    from privatelr.results.record import SelectedRecord

_MOST_ROWS = 200


def selected_mechanism(fit: SelectedRecord, document: dict[str, Any]) -> list[tuple[str, str]]:
    """How columns were chosen, row by row."""
    problem = fit.calibration.problem
    spent = [] if isinstance(fit.guarantee, NonPrivate) else [("Spent", "all of it on the choices")]
    return [
        ("Guarantee", str(fit.guarantee)),
        *spent,
        ("Neighbours", fit.guarantee.neighbours.value),
        ("Records", f"n = {problem.n}"),
        ("Rows", f"d = {problem.d} columns, no entry above {problem.x_bound:.6g} in size"),
        ("Loss", describe(fit.loss)),
        *fit.calibration.facts,
        *common_facts(fit, document),
    ]


def selected_released(fit: SelectedRecord) -> list[Piece]:
    """The coefficients that are not zero, and how often their columns were chosen."""
    d, counts = fit.spec.d, fit.release.counts
    estimates = fit.coef
    shown = [int(index) for index in np.flatnonzero(fit.release.coef)]
    rows = [
        [estimates.index[index], f"{estimates.iloc[index]:.6g}", *_times(counts, index, d)]
        for index in shown[:_MOST_ROWS]
    ]
    headers = ["Coefficient", "Estimate", "Times +", "Times -"]
    ordered = ", the order of the choices" if fit.release.path is not None else ""
    more = f" The table shows {_MOST_ROWS} of {len(shown)}." if len(shown) > _MOST_ROWS else ""
    note = (
        f"These numbers{ordered}, and whatever is computed from them, are all that was released. "
        f"{d - len(shown)} of {d} coefficients are zero in the units of the design.{more}"
    )
    return [Table(rows, headers), Paragraph(note)]


def _times(counts: Any, index: int, d: int) -> tuple[str, str]:
    return str(counts[index]), str(counts[d + index])
