"""The printed page of a fit of several classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privatelr.page_model import Listing, Piece, Table
from privatelr.results.pages import sentences
from privatelr.results.pages.beside_terms import paid_before
from privatelr.results.pages.summary import FitSummary
from privatelr.results.release_files.origin import source_fact

if TYPE_CHECKING:
    from privatelr.results.multinomial_fit import MultinomialFit

_MOST_ROWS = 200
"""A page has at most this number of coefficients; `coef` has all."""
_SHOWN_ON_CARD = 50
"""A card has at most this number of coefficients; the release file has all."""
_NO_ERRORS = (
    "Standard errors of several classes are not built: dplr of one class against the others takes "
    "spend='inference'."
)


def summarise(fit: MultinomialFit) -> FitSummary:
    """Make the page: a row for each class and term."""
    rows = fit.tidy()
    private = "privacy_sd_limit" in rows.columns
    shown = rows.head(_MOST_ROWS)
    table = Table(
        [f"{row['class']}: {row['term']}" for _, row in shown.iterrows()],
        ["estimate", *(["noise sd limit"] if private else [])],
        [
            [f"{row['estimate']:.4g}", *([f"{row['privacy_sd_limit']:.3g}"] if private else [])]
            for _, row in shown.iterrows()
        ],
        width=16,
    )
    first, notes = fit.classes[0], []
    if len(shown) < len(rows):
        notes.append(f"The first {len(shown)} of {len(rows)} coefficients; fit.coef has all.")
    notes.append(f"Coefficients are log odds of a class against {first}, the reference.")
    if private:
        of_scale = "" if fit.release.scale is None else ", but for the released scale"
        notes.append(
            "noise sd limit: what the noise adds has at most this standard deviation, whatever "
            "the data, and usually much less, because the information in the data damps it; "
            f"computed without the data{of_scale}."
        )
        notes.append(_NO_ERRORS)
    notes += sentences.unseen_records(fit)
    notes.append("No number on this page but the estimates was computed from the data.")
    return FitSummary(
        [sentences.title(fit), fit.formula],
        [
            ("Promise", sentences.promise(fit)),
            *source_fact(fit),
            *paid_before([fit.spec], fit.guarantee),
            *fit.kind.facts(fit, None),
        ],
        [table],
        notes,
        [],
    )


def estimates_of_card(fit: MultinomialFit) -> list[Piece]:
    """The table of estimates on the card, and what the noise adds."""
    rows = fit.tidy()
    cells = [[str(row[0]), str(row[1]), *(f"{x:.6g}" for x in row[2:])] for row in rows.to_numpy()]
    headers = ["Class", "Coefficient", "Estimate"]
    shown = f", the first {_SHOWN_ON_CARD} of {len(rows)}" if len(rows) > _SHOWN_ON_CARD else ""
    note = (
        f"These numbers{shown}, and whatever is computed from them, are all that was released: log "
        f"odds against {fit.classes[0]}, the reference."
    )
    if "privacy_sd_limit" in rows.columns:
        headers.append("Privacy sd, at most")
        of_scale = "" if fit.release.scale is None else ", but for the released scale"
        note += f" The privacy sd is what the noise adds; computed without the data{of_scale}."
    return [Listing(headers, cells[:_SHOWN_ON_CARD]), note]
