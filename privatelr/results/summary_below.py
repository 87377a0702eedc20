"""What stands below the rule of the printed page: what is not private, and that nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from privatelr.privacy.guarantees import NonPrivate

if TYPE_CHECKING:
    from privatelr.results.record import ModelRecord


def below(fit: ModelRecord, computed: str) -> list[str]:
    """Sentences below the rule; `computed` lists what else above it was made from the data."""
    return [_diagnosed(fit), *_learned_threshold(fit), _closing(fit, computed)]


def _diagnosed(fit: ModelRecord) -> str:
    if not fit.has_diagnostics:
        return (
            "Diagnostics of the training data are not kept in a saved fit, nor made of many rows."
        )
    value = fit.diagnostics.c_index
    c_index = "not defined" if pd.isna(value) else f"{value:.3f}"
    if isinstance(fit.guarantee, NonPrivate):
        return f"C-index {c_index}, computed from the training data."
    return (
        f"C-index {c_index} and anything else below this line was computed from the training "
        "data and is not covered by the promise. Do not publish it."
    )


def _learned_threshold(fit: ModelRecord) -> list[str]:
    rule = fit.threshold.rule
    if rule is None:
        return []
    value = f" {fit.diagnostics.threshold(rule):.3f}" if fit.has_diagnostics else ""
    return [
        f"The threshold{value} ({rule}) of predict(type='classes') was learned from the training "
        "data, so the classes it gives are not private either."
    ]


def _closing(fit: ModelRecord, computed: str) -> str:
    if fit.spec.scaled_by_data:
        return "Every number in the table above was computed from the data."
    return (
        f"Apart from the estimates{computed} and what stands below the line, no number on this "
        "page was computed from the data."
    )
