"""What differs between kinds of fits on pages and cards, in tables, predictions and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar

from privatelr.inference import Inference
from privatelr.page_model import Piece, Table
from privatelr.privacy import Event
from privatelr.results import fit_record, fit_tables, multinomial_fit, predict
from privatelr.results.pages import (
    card,
    coefficient_table,
    comparison,
    error_notes,
    sentences,
)
from privatelr.results.pages.sentences import Facts
from privatelr.results.release_files import origin
from privatelr.types import BoolArray, FloatArray

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class FitKind(Generic[Record]):
    """How the fits of one kind are described, shown and applied; each attribute takes a fit.

    Attributes
    ----------
    title
        The kind of the model.
    events
        The events of all stages, in the order of their releases.
    bought
        What the guarantee covers, as it follows the guarantee on the page.
    facts
        The lines of the page; also takes the inference that the page shows, if there is one.
    details
        Further lines of the card.
    names
        Names of the coefficients on the page.
    estimates
        The coefficients in the units of the columns, in the order of the names.
    noise
        A forecast of the standard deviations that the noise adds to these, and upper bounds on
        them, NaN where there are none; also takes the positions of the coefficients.
    rows
        Positions of the coefficients on the page; also takes the estimates.
    columns
        Columns of the page next to the estimates, and the standard deviations of these for the
        units of odds ratios; also takes the positions of the coefficients.
    notes
        Sentences below the table of the page, and what else on the page was computed from the
        data; also takes the table.
    seen
        What is released next to the estimates, for the promise of the card.
    released
        The release on the card.
    checked
        What reading a file of a private fit verifies.
    glance
        Entries of `glance` about the mechanism.
    compared
        Facts about the mechanism in a comparison; also takes the mode of the inference.
    link_of_matrix
        Linear predictors of sparse rows, and the usable rows; also takes the rows and their labels,
        which are 0 for rows that are not usable.
    """

    title: Callable[[Record], str]
    events: Callable[[Record], tuple[Event, ...]]
    bought: Callable[[Record], str]
    facts: Callable[[Record, Inference | None], Facts]
    details: Callable[[Record], Facts]
    names: Callable[[Any], list[str]] = fit_record.coefficient_names
    estimates: Callable[[Any], FloatArray] = fit_record.in_user_units
    noise: Callable[[Any, list[int]], tuple[FloatArray, FloatArray]]
    rows: Callable[[Record, FloatArray], list[int]]
    columns: Callable[[Record, list[int]], tuple[dict[str, list[str]], FloatArray]]
    notes: Callable[[Record, Table], tuple[list[str], list[str]]]
    seen: Callable[[Record], list[str]]
    released: Callable[[Record], list[Piece]]
    checked: Callable[[Record], Sequence[str]]
    glance: Callable[[Record], dict[str, object]]
    compared: Callable[[Record, str], dict[str, str]]
    link_of_matrix: Callable[[Record, Any, FloatArray], tuple[FloatArray, BoolArray]]


NOISY: FitKind[Any] = FitKind(
    title=attrgetter("loss.title"),
    events=sentences.events_of_noise,
    bought=sentences.bought_with_noise,
    facts=sentences.facts_of_noise,
    details=sentences.details_of_noise,
    noise=fit_tables.noise_at,
    rows=lambda _, estimates: coefficient_table.shown_rows(estimates),
    columns=coefficient_table.noise_columns,
    notes=error_notes.notes_without_errors,
    seen=card.seen_next_to_noise,
    released=card.released_with_noise,
    checked=origin.checked_noise,
    glance=fit_tables.glance_of_noise,
    compared=comparison.compared_noise,
    link_of_matrix=predict.link_of_bounded_rows,
)
CLASSES = replace(
    NOISY,
    names=multinomial_fit.names_of_classes,
    estimates=multinomial_fit.estimates_of_classes,
    noise=multinomial_fit.noise_of_classes,
)
