"""A fit as one JSON value, and back again with every part checked against the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from privatelr.design import EntryBoundedMatrix, NormBoundedMatrix
from privatelr.errors import GuaranteeError, ReleaseFileError
from privatelr.mechanisms import Release
from privatelr.mechanisms.selection_release import Selections
from privatelr.privacy import NonPrivate, event_to_json, exact, to_json
from privatelr.privacy.accounting import Entry, join
from privatelr.results.fit_record import FitRecord, SelectedRecord
from privatelr.results.predict import Threshold, scale_of
from privatelr.results.release_files.calibration_file import (
    calibration_entry,
    restore_calibration,
    restore_guarantee,
)
from privatelr.results.release_files.design_file import plan_entry, restore_plan
from privatelr.results.release_files.json_values import (
    CLOSE,
    choice,
    entries,
    listing,
    number,
    numbers,
    require_same,
    text,
    whole,
)
from privatelr.results.release_files.moments_file import moments_entry, restore_moments
from privatelr.results.release_files.release_format import (
    FORMAT,
    VERSION,
    content_hash,
    require_content,
    versions,
    written_by,
)
from privatelr.results.release_files.selections_file import (
    choices_entry,
    is_selection,
    restore_choices,
    restore_selection,
    selection_entry,
)
from privatelr.results.release_files.signature import signer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.design import DesignSpec
    from privatelr.mechanisms import Moments
    from privatelr.mechanisms.calibration import Calibration
    from privatelr.mechanisms.selection_release import SelectionCalibration
    from privatelr.privacy import Event, Guarantee
    from privatelr.results.fit_record import ModelRecord
    from privatelr.results.predict import Scale
    from privatelr.types import FloatArray

_LONGEST_LABEL = 10**6


# -- writing ---------------------------------------------------------------------------------


def release_document(fit: ModelRecord) -> dict[str, Any]:
    """A fit as plain values, with its content hash and not signed.

    Raises
    ------
    GuaranteeError
        If the columns were scaled by the data: their map is made of moments of the data.
    """
    if fit.spec.scaled_by_data:
        raise GuaranteeError(
            "do_scale=True: the columns were scaled by means and deviations of the data, which a "
            "release may not hold; declare bounds= instead, and fit again."
        )
    coef, release = fit.release.coef, fit.release
    if not np.isfinite(coef).all():
        raise ReleaseFileError("a coefficient is not a finite number")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "notice": _notice(fit.guarantee),
        "written_by": versions(),
        "guarantee": to_json(fit.guarantee),
        "randomness": _randomness(fit.guarantee, release.calibration),
        **_released(release),
        "ledger": _ledger_entry(fit.release.entry),
        "design": plan_entry(fit.spec),
        "coefficients": {
            "names": list(fit.spec.columns.names),
            "user_units": _user_units(fit.spec, coef),
            "design_units": coef.tolist(),
        },
        "threshold": {
            "rule": fit.threshold.rule or "fixed",
            "value": None if fit.threshold.rule else fit.threshold.value,
        },
    }
    return {**document, "sha256": content_hash(document), "signature": None}


def _released(release: Release | Selections) -> dict[str, Any]:
    """How the release was made, and what of it is not the coefficients."""
    if isinstance(release, Selections):
        return {
            "calibration": selection_entry(release.calibration),
            "inference": None,
            "choices": choices_entry(release),
        }
    return {
        "calibration": calibration_entry(release.calibration),
        "inference": moments_entry(release.moments),
        "choices": None,
    }


def _ledger_entry(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "label": entry.label,
        "part": entry.part,
        "times": entry.times,
        "guarantee": to_json(entry.guarantee),
        "events": [event_to_json(event) for event in entry.events],
    }


def _notice(guarantee: Guarantee) -> str:
    """What a person who opens the file reads first."""
    if isinstance(guarantee, NonPrivate):
        return f"NOT PRIVATE: nothing in this file is covered by a guarantee ({guarantee.reason})"
    return f"covered by {guarantee}; holds no row of the data, and no moment of it without noise"


def _randomness(guarantee: Guarantee, calibration: Calibration | SelectionCalibration) -> str:
    """Where the noise came from, as far as the guarantee tells."""
    if isinstance(calibration.target, NonPrivate):
        return "no noise"
    return "seed" if isinstance(guarantee, NonPrivate) else "operating system"


def _user_units(spec: DesignSpec | EntryBoundedMatrix, coef: FloatArray) -> list[float | None]:
    with np.errstate(all="ignore"):
        estimates = (spec.user_map() @ coef).tolist()
    return [value if np.isfinite(value) else None for value in estimates]


# -- reading ---------------------------------------------------------------------------------


def restore(document: Any) -> FitRecord | SelectedRecord:
    """The fit that `release_document` describes, without diagnostics.

    Raises
    ------
    ReleaseFileError
        Part of a sentence that says what is wrong.
    """
    return restore_content(require_content(document))


def restore_content(given: dict[str, Any]) -> FitRecord | SelectedRecord:
    """The same of a document that `require_content` let through."""
    signer_of(given.get("signature"))
    written_by(given)
    if is_selection(given["calibration"]):
        return _restore_selected(given)
    require_same(given["choices"], None, "choices")
    calibration = restore_calibration(given["calibration"])
    moments = restore_moments(given["inference"], calibration.problem)
    parts = [calibration.target, *([moments.calibration.target] if moments else [])]
    guarantee = _standing(given["guarantee"], parts)
    require_same(given["notice"], _notice(guarantee), "notice")
    require_same(given["randomness"], _randomness(guarantee, calibration), "randomness")
    entry = _read_ledger(given["ledger"], guarantee, _events(calibration, moments))
    spec: Any = restore_plan(given["design"])
    if isinstance(spec, EntryBoundedMatrix):
        raise ReleaseFileError("design.row_norm takes a number beside noise")
    _require_match(spec, calibration)
    coef = _read_coefficients(given["coefficients"], spec, calibration.grid)
    release = Release(coef, guarantee, calibration, entry, moments)
    cut = _read_threshold(given["threshold"], scale_of(calibration.problem.loss))
    return FitRecord(spec, release, cut)


def _restore_selected(given: dict[str, Any]) -> SelectedRecord:
    """The rest of a fit whose calibration is one of choices."""
    require_same(given["inference"], None, "inference")
    calibration = restore_selection(given["calibration"])
    guarantee = _standing(given["guarantee"], [calibration.target])
    require_same(given["notice"], _notice(guarantee), "notice")
    require_same(given["randomness"], _randomness(guarantee, calibration), "randomness")
    entry = _read_ledger(given["ledger"], guarantee, calibration.events)
    spec: Any = restore_plan(given["design"])
    if isinstance(spec, NormBoundedMatrix):
        raise ReleaseFileError("design.row_norm takes null beside choices")
    require_same(calibration.problem.d, spec.d, "calibration.d")
    require_same(calibration.problem.x_bound, spec.x_bound, "calibration.x_bound")
    chosen = restore_choices(given["choices"], calibration)
    release = replace(chosen, guarantee=guarantee, entry=entry)
    if not np.array_equal(_read_coefficients(given["coefficients"], spec, 0.0), release.coef):
        raise ReleaseFileError("coefficients.design_units is not what the choices give")
    cut = _read_threshold(given["threshold"], scale_of(calibration.problem.loss))
    return SelectedRecord(spec, release, cut)


def _standing(value: Any, parts: Sequence[Guarantee]) -> Guarantee:
    """What the parts of the release add up to, or what is left of it once it is void."""
    guarantee = restore_guarantee(value, "guarantee")
    try:
        total = join(parts)
    except GuaranteeError:
        raise ReleaseFileError(
            "inference.target takes a guarantee that adds up with that of the coefficients"
        ) from None
    if isinstance(guarantee, NonPrivate) and not isinstance(total, NonPrivate):
        if not guarantee.reason.startswith("void: "):
            raise ReleaseFileError("guarantee.reason takes 'void: ' and why, beside noise")
    elif not _is_sum(to_json(guarantee), to_json(total)):
        raise ReleaseFileError(f"guarantee is {guarantee}, and the noise was made for {total}")
    return guarantee


def _is_sum(given: dict[str, Any], total: dict[str, Any]) -> bool:
    """Whether a guarantee is the total of its parts, or above it by what a float cannot hold."""
    return given.keys() == total.keys() and all(
        exact(total[name]) <= exact(value) <= exact(total[name] * (1 + CLOSE))
        if isinstance(value, float)
        else value == total[name]
        for name, value in given.items()
    )


def _events(calibration: Calibration, moments: Moments | None) -> tuple[Event, ...]:
    """What a ledger composes for the whole release."""
    return calibration.events + (moments.calibration.events if moments else ())


def _read_ledger(value: Any, guarantee: Guarantee, events: tuple[Event, ...]) -> Entry | None:
    """What a ledger was charged: this guarantee, and the events of this release."""
    if value is None:
        return None
    given = entries(value, "ledger", ("label", "part", "times", "guarantee", "events"))
    if isinstance(guarantee, NonPrivate):
        raise ReleaseFileError("ledger takes null beside a release without a guarantee")
    part = given["part"]
    entry = Entry(
        label=text(given["label"], "ledger.label", _LONGEST_LABEL),
        guarantee=guarantee,
        events=events if given["events"] else (),
        part=None if part is None else text(part, "ledger.part", _LONGEST_LABEL),
        times=whole(given["times"], "ledger.times", 1, 10**9),
    )
    require_same(given, _ledger_entry(entry), "ledger")
    return entry


def _require_match(spec: DesignSpec, calibration: Calibration) -> None:
    """Refuse a calibration that was made for other rows."""
    problem = calibration.problem
    require_same(problem.d, spec.d, "calibration.d")
    require_same(problem.radius, spec.radius, "calibration.radius")
    if problem.blocks:
        given = [[block.size, block.bound, block.norm] for block in problem.blocks]
        expected = [[block.size, block.bound, block.norm] for block in spec.blocks]
        require_same(given, expected, "calibration.blocks")


def _read_coefficients(
    value: Any, spec: DesignSpec | EntryBoundedMatrix, grid: float
) -> FloatArray:
    where = "coefficients"
    given = entries(value, where, ("names", "user_units", "design_units"))
    require_same(given["names"], list(spec.columns.names), f"{where}.names")
    coef = numbers(given["design_units"], f"{where}.design_units", spec.d)
    if grid and np.any(np.fmod(coef, grid)):
        raise ReleaseFileError(f"{where}.design_units takes multiples of the grid")
    units = listing(given["user_units"], f"{where}.user_units")
    with np.errstate(all="ignore"):
        slack = CLOSE * (np.abs(spec.user_map()) @ np.abs(coef))
    expected = _user_units(spec, coef)
    if len(units) != len(expected):
        raise ReleaseFileError(f"{where}.user_units takes {len(expected)} numbers")
    for index, (item, true, room) in enumerate(zip(units, expected, slack.tolist(), strict=True)):
        at = f"{where}.user_units[{index}]"
        if item is None or true is None:
            require_same(item, true, at)
        elif not abs(number(item, at) - true) <= room:
            raise ReleaseFileError(f"{at} is not what the coefficients in scaled units give")
    return coef


def _read_threshold(value: Any, scale: Scale) -> Threshold:
    given = entries(value, "threshold", ("rule", "value"))
    rule = choice(given["rule"], "threshold.rule", ("fixed", "youden", "topleft"))
    if rule != "fixed":
        # the value of a learned rule is a function of the data and never in a file
        require_same(given["value"], None, "threshold.value")
        return Threshold(scale.fixed, rule=cast("Any", rule))
    cut = number(given["value"], "threshold.value")
    if not scale.lowest <= cut <= scale.highest:
        raise ReleaseFileError(f"threshold.value takes {scale.takes}")
    return Threshold(cut)
