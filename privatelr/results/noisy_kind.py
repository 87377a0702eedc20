"""The kinds of fits that were released by adding noise to a minimiser or to an objective."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

from privatelr.results import fit_tables, predict
from privatelr.results.fit_kind import FitKind
from privatelr.results.pages import (
    card,
    coefficient_table,
    comparison_table,
    error_notes,
    sentences,
)
from privatelr.results.release_files import origin

NOISY: FitKind[Any] = FitKind(
    title=attrgetter("loss.title"),
    events=sentences.events_of_noise,
    bought=sentences.bought_with_noise,
    facts=sentences.facts_of_noise,
    card_facts=sentences.card_facts_of_noise,
    rows=lambda _, estimates: coefficient_table.shown_rows(estimates),
    columns=coefficient_table.noise_columns,
    notes=error_notes.notes_without_errors,
    seen=card.seen_next_to_noise,
    released=card.released_with_noise,
    checked=origin.checked_noise,
    glance=fit_tables.glance_of_noise,
    compared=comparison_table.compared_noise,
    link_of_matrix=predict.link_of_bounded_rows,
)
CLASSES = replace(NOISY, released=card.released_of_classes)
