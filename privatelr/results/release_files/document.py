"""A fit as a document, and back again with every part checked against the others.

The document of a restored fit is compared with the one that was read, so whatever follows from
other entries has to be what follows. Left out are the format's version, the programs, the hash
and the signature, which are about the file and not about the fit.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

import privatelr
from privatelr.design import DesignSpec, EntryBoundedMatrix, NormBoundedMatrix
from privatelr.errors import GuaranteeError, ReleaseFileError, show
from privatelr.mechanisms import Release
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.selection_release import SelectionCalibration, Selections
from privatelr.privacy import Event, Guarantee, NonPrivate, event_to_json, exact, to_json
from privatelr.privacy.accounting import Entry, join
from privatelr.results.fit_record import FitRecord, ModelRecord, SelectedRecord
from privatelr.results.predict import Scale, Threshold, scale_of
from privatelr.results.release_files import document_entries as entries
from privatelr.results.release_files.calibration_entries import AnySelection, PerturbationEntry
from privatelr.results.release_files.calibration_file import (
    calibration_entry,
    guarantee_entry,
    moments_entry,
    restore_calibration,
    restore_guarantee,
    restore_moments,
)
from privatelr.results.release_files.design_file import plan_entry, restore_plan
from privatelr.results.release_files.json_values import CLOSE, canonical, read_entry, require_same
from privatelr.results.release_files.selections_file import (
    choices_entry,
    restore_choices,
    restore_selection,
    selection_entry,
)
from privatelr.types import FloatArray

if TYPE_CHECKING:
    AnyDocument = entries.Document[Any, Any]

_UNHASHED = ("sha256", "signature")
_OPEN = ("version", "written_by", *_UNHASHED)
"""Entries about the file and not about the fit."""
_LIBRARIES = ("formulaic", "numpy", "pandas", "python-flint", "scipy")


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
    if not np.isfinite(fit.release.coef).all():
        raise ReleaseFileError("a coefficient is not a finite number")
    document = _plain(_written(fit))
    return {**document, "sha256": content_hash(document)}


def _plain(document: AnyDocument) -> dict[str, Any]:
    """A document as JSON has it; NumPy's numbers become numbers."""
    plain: dict[str, Any] = msgspec.to_builtins(document, enc_hook=lambda value: value.item())
    return plain


def _written(fit: ModelRecord) -> AnyDocument:
    """A fit as a document that has no hash yet."""
    release, coef, learned = fit.release, fit.release.coef, fit.threshold.rule
    chosen = isinstance(release, Selections)
    made = release.calibration
    return entries.Document(
        format=entries.FORMAT,
        version=entries.VERSION,
        notice=_notice(fit.guarantee),
        written_by=_programs(),
        guarantee=guarantee_entry(fit.guarantee),
        randomness=_randomness(fit.guarantee, made),  # type: ignore[arg-type]
        calibration=selection_entry(made) if chosen else calibration_entry(made),
        inference=None if chosen or not release.moments else moments_entry(release.moments),
        choices=choices_entry(release) if chosen else None,
        ledger=_charge(release.entry),
        design=plan_entry(fit.spec),
        coefficients=entries.CoefficientsEntry(
            names=list(fit.spec.columns.names),
            user_units=_user_units(fit.spec, coef),
            design_units=coef.tolist(),
        ),
        threshold=entries.ThresholdEntry(
            rule=learned or "fixed", value=None if learned else fit.threshold.value
        ),
        sha256="",
        signature=None,
    )


def _charge(entry: Entry | None) -> entries.ChargeEntry | None:
    if entry is None:
        return None
    events = [event_to_json(event) for event in entry.events]
    return entries.ChargeEntry.of(entry, guarantee=guarantee_entry(entry.guarantee), events=events)


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


def content_hash(document: dict[str, Any]) -> str:
    """SHA-256 of all entries but the hash itself and a signature of it, in canonical spelling."""
    rest = {name: value for name, value in document.items() if name not in _UNHASHED}
    return hashlib.sha256(canonical(rest)).hexdigest()


@functools.cache
def _programs() -> dict[str, str]:
    """Programs and their versions, as this one writes them."""
    return {
        "privatelr": privatelr.__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


# -- reading ---------------------------------------------------------------------------------


def read_document(value: Any) -> AnyDocument:
    """A document of a known version that has its entries and the hash that it states.

    Raises
    ------
    ReleaseFileError
        Part of a sentence that says what is wrong.
    """
    if not isinstance(value, dict) or value.get("format") != entries.FORMAT:
        raise ReleaseFileError("the file is JSON, and not a release of privatelr")
    version = value.get("version")
    if type(version) is int and version > entries.VERSION:
        raise ReleaseFileError(
            f"the file has version {version} of the format, and privatelr {privatelr.__version__} "
            f"reads up to version {entries.VERSION}; upgrade privatelr"
        )
    if type(version) is not int or version < 1:
        known = " or ".join(map(str, range(1, entries.VERSION + 1)))
        raise ReleaseFileError(f"version takes {known}, not {show(version)}")
    document = _READERS[version](value)
    if document.sha256 != content_hash(value):
        raise ReleaseFileError(
            "its content does not have the hash that it states, so it was changed after saving"
        )
    return document


def _read_first(value: dict[str, Any]) -> AnyDocument:
    """The first version had no signature."""
    if "signature" in value:
        raise ReleaseFileError("the file has an entry 'signature', which version 1 does not know")
    return _read_second({**value, "signature": None})


def _read_second(value: dict[str, Any]) -> AnyDocument:
    calibration, design = value.get("calibration"), value.get("design")
    chosen = isinstance(calibration, dict) and "mechanism" in calibration
    numbered = isinstance(design, dict) and "matrix" in design
    # pairs of types, because only what has a tag can be told apart by msgspec itself
    made: Any = AnySelection if chosen else PerturbationEntry
    planned: Any = entries.MatrixEntry if numbered else entries.FormulaEntry
    document: AnyDocument = read_entry(value, entries.Document[made, planned])
    return document


_READERS = {1: _read_first, 2: _read_second}
"""A reader for each version of the format; all of them are read, and the last one is written."""


def restore(value: Any) -> FitRecord | SelectedRecord:
    """The fit that `release_document` describes, without diagnostics.

    Raises
    ------
    ReleaseFileError
        Part of a sentence that says what is wrong.
    """
    return restore_content(read_document(value), value)


def restore_content(document: AnyDocument, value: dict[str, Any]) -> FitRecord | SelectedRecord:
    """The same of a document that was read from this value."""
    noisy = isinstance(document.calibration, PerturbationEntry)
    record = _restore_perturbed(document) if noisy else _restore_selected(document)
    written = _plain(_written(record))
    _require_close_units(value["coefficients"]["user_units"], record)
    written["coefficients"]["user_units"] = value["coefficients"]["user_units"]
    written = {name: value[name] if name in _OPEN else written[name] for name in value}
    if canonical(value) != canonical(written):  # by rounding at most, then
        require_same(value, written, "")
    return record


def _restore_perturbed(document: AnyDocument) -> FitRecord:
    """A fit whose calibration is one of noise."""
    calibration = restore_calibration(document.calibration)
    moments = restore_moments(document.inference, calibration.problem)
    parts = [calibration.target, *([moments.calibration.target] if moments else [])]
    guarantee = _standing(document, parts)
    events = calibration.events + (moments.calibration.events if moments else ())
    entry = _read_charge(document.ledger, guarantee, events)
    spec: Any = restore_plan(document.design)
    if isinstance(spec, EntryBoundedMatrix):
        raise ReleaseFileError("design.row_norm takes a number beside noise")
    problem = calibration.problem
    require_same(problem.d, spec.d, "calibration.d")
    require_same(problem.radius, spec.radius, "calibration.radius")
    if problem.blocks:
        expected = [[block.size, block.bound, block.norm] for block in spec.blocks]
        given = [[block.size, block.bound, block.norm] for block in problem.blocks]
        require_same(given, expected, "calibration.blocks")
    coef = _read_coefficients(document.coefficients, spec)
    if calibration.grid and np.any(np.fmod(coef, calibration.grid)):
        raise ReleaseFileError("coefficients.design_units takes multiples of the grid")
    release = Release(coef, guarantee, calibration, entry, moments)
    return FitRecord(spec, release, _read_threshold(document.threshold, scale_of(problem.loss)))


def _restore_selected(document: AnyDocument) -> SelectedRecord:
    """A fit whose calibration is one of choices."""
    calibration = restore_selection(document.calibration)
    guarantee = _standing(document, [calibration.target])
    entry = _read_charge(document.ledger, guarantee, calibration.events)
    spec: Any = restore_plan(document.design)
    if isinstance(spec, NormBoundedMatrix):
        raise ReleaseFileError("design.row_norm takes null beside choices")
    require_same(calibration.problem.d, spec.d, "calibration.d")
    require_same(calibration.problem.x_bound, spec.x_bound, "calibration.x_bound")
    if document.choices is None:
        raise ReleaseFileError("choices takes an object where columns were chosen")
    chosen = restore_choices(document.choices, calibration)
    release = replace(chosen, guarantee=guarantee, entry=entry)
    if not np.array_equal(_read_coefficients(document.coefficients, spec), release.coef):
        raise ReleaseFileError("coefficients.design_units is not what the choices give")
    cut = _read_threshold(document.threshold, scale_of(calibration.problem.loss))
    return SelectedRecord(spec, release, cut)


def _standing(document: AnyDocument, parts: Sequence[Guarantee]) -> Guarantee:
    """What the parts of the release add up to, or what is left of it once it is void."""
    guarantee = restore_guarantee(document.guarantee, "guarantee")
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


def _read_charge(
    given: entries.ChargeEntry | None, guarantee: Guarantee, events: tuple[Event, ...]
) -> Entry | None:
    """What a ledger was charged: this guarantee, and the events of this release."""
    if given is None:
        return None
    if isinstance(guarantee, NonPrivate):
        raise ReleaseFileError("ledger takes null beside a release without a guarantee")
    return Entry(
        label=given.label,
        guarantee=guarantee,
        events=events if given.events else (),
        part=given.part,
        times=given.times,
    )


def _read_coefficients(given: entries.CoefficientsEntry, spec: Any) -> FloatArray:
    if len(given.design_units) != spec.d:
        raise ReleaseFileError(f"coefficients.design_units takes {spec.d} numbers")
    return np.array(given.design_units, dtype=np.float64)


def _require_close_units(given: list[float | None], record: ModelRecord) -> None:
    """Refuse coefficients in the units of the columns that differ by more than rounding."""
    spec, coef = record.spec, record.release.coef
    with np.errstate(all="ignore"):
        slack = CLOSE * (np.abs(spec.user_map()) @ np.abs(coef))
    expected = _user_units(spec, coef)
    if len(given) != len(expected):
        raise ReleaseFileError(f"coefficients.user_units takes {len(expected)} numbers")
    for index, (item, true, room) in enumerate(zip(given, expected, slack.tolist(), strict=True)):
        at = f"coefficients.user_units[{index}]"
        if item is None or true is None:
            require_same(item, true, at)
        elif not abs(item - true) <= room:
            raise ReleaseFileError(f"{at} is not what the coefficients in scaled units give")


def _read_threshold(given: entries.ThresholdEntry, scale: Scale) -> Threshold:
    if given.rule != "fixed":
        # the value of a learned rule is a function of the data and never in a file
        require_same(given.value, None, "threshold.value")
        return Threshold(scale.fixed, rule=given.rule)
    if given.value is None or not scale.lowest <= given.value <= scale.highest:
        raise ReleaseFileError(f"threshold.value takes {scale.takes}")
    return Threshold(given.value)
