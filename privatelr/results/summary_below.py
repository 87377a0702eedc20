"""What the page says of itself: what was computed from the data, and what only if asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from privatelr.errors import ArgumentError, show
from privatelr.privacy.guarantees import NonPrivate
from privatelr.results.counts_page import sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.results.record import ModelRecord


def read_diagnostics(fit: ModelRecord, diagnostics: Any) -> bool:
    """Whether the page shows numbers of the training data; refuses where there are none."""
    if not isinstance(diagnostics, bool):
        raise ArgumentError(f"diagnostics={show(diagnostics)}: diagnostics takes True or False.")
    if diagnostics and not fit.has_diagnostics:
        raise ArgumentError(
            "diagnostics=True: this fit has none, since they are computed from the training data "
            "and are neither kept in a saved fit nor made of a Dask collection of many records; "
            "fit again to see them, or take diagnostics=False."
        )
    return diagnostics


def above(fit: ModelRecord, computed: Sequence[str], *, has_below: bool) -> list[str]:
    """Last sentences above the rule, or of a page without one.

    `computed` names what on the page was made from the data.
    """
    return [*_hints(fit, has_below=has_below), _closing(fit, computed, has_below=has_below)]


def below(fit: ModelRecord) -> list[str]:
    """Sentences below the rule, every one of them about the training data."""
    return [_warning(fit), _diagnosed(fit), *_threshold(fit), *sentences(fit.diagnostics.counts)]


def _hints(fit: ModelRecord, *, has_below: bool) -> list[str]:
    """What the page leaves out, and where it is; words, and no number."""
    hints = []
    rule = fit.threshold.rule
    if rule is not None:
        hints.append(
            f"The threshold of predict(type='classes') was learned from the training data ({rule}),"
            " so neither it nor the classes that it gives are private"
            f"{'.' if fit.has_diagnostics else '; a saved fit does not have it.'}"
        )
    if fit.has_diagnostics and not has_below:
        hints.append(
            "The C-index and the counts of the training data are not private and not shown: "
            "fit.diagnostics has them, and so has summary(diagnostics=True)."
        )
    return hints


def _closing(fit: ModelRecord, computed: Sequence[str], *, has_below: bool) -> str:
    if fit.spec.scaled_by_data:
        return "Every number in the table above was computed from the data."
    *first, last = computed
    named = f"{', '.join(first)} and {last}" if first else last
    place = "above the line" if has_below else "on this page"
    return f"No number {place} but {named} was computed from the data."


def _warning(fit: ModelRecord) -> str:
    if isinstance(fit.guarantee, NonPrivate):
        return "What stands below this line was computed from the training data."
    return (
        "What stands below this line was computed from the training data and is not covered by "
        "the promise. Do not publish it."
    )


def _diagnosed(fit: ModelRecord) -> str:
    value = fit.diagnostics.c_index
    return f"C-index {'not defined' if pd.isna(value) else f'{value:.3f}'}."


def _threshold(fit: ModelRecord) -> list[str]:
    rule = fit.threshold.rule
    if rule is None:
        return []
    return [f"The threshold {fit.diagnostics.threshold(rule):.3f} ({rule}) splits the classes."]
