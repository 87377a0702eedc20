"""Modules that show, save and answer about a release, loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr.lazy_import import lazy_import

if TYPE_CHECKING:
    from privatelr import inference
    from privatelr.inference import prediction_errors, question
    from privatelr.results import fit_kind, fit_tables, odds_ratios
    from privatelr.results.answers import private_roc, scored_records
    from privatelr.results.pages import (
        card,
        comparison,
        forest,
        roc_page,
        sentences,
        summary,
        term_plot,
    )
    from privatelr.results.release_files import release_file
else:
    inference = lazy_import("privatelr.inference")
    prediction_errors = lazy_import("privatelr.inference.prediction_errors")
    question = lazy_import("privatelr.inference.question")
    fit_kind = lazy_import("privatelr.results.fit_kind")
    fit_tables = lazy_import("privatelr.results.fit_tables")
    odds_ratios = lazy_import("privatelr.results.odds_ratios")
    private_roc = lazy_import("privatelr.results.answers.private_roc")
    scored_records = lazy_import("privatelr.results.answers.scored_records")
    card = lazy_import("privatelr.results.pages.card")
    comparison = lazy_import("privatelr.results.pages.comparison")
    forest = lazy_import("privatelr.results.pages.forest")
    roc_page = lazy_import("privatelr.results.pages.roc_page")
    sentences = lazy_import("privatelr.results.pages.sentences")
    summary = lazy_import("privatelr.results.pages.summary")
    term_plot = lazy_import("privatelr.results.pages.term_plot")
    release_file = lazy_import("privatelr.results.release_files.release_file")
