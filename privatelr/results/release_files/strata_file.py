"""The file of fits to strata: the release file of each, and what makes them one release.

Each fit stands in it as `privatelr.results.release_files.release_file` writes it, with its own
hash. That they were paid for together follows from what is the same in all of them: the
formula but for the level, the design, the calibrations, the guarantee and the charge.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from privatelr.errors import ReleaseFileError
from privatelr.results.fit import Fit
from privatelr.results.release_files import release_file
from privatelr.results.release_files.json_values import canonical, require_version, spell_json
from privatelr.results.strata_of_fits import Strata

FORMAT = "privatelr strata"
VERSION = 2
_NAMES = {"format", "version", "by", "fits", "sha256"}
_OWN = ("formula", "coefficients", "inference", "roc", "sha256")
"""Entries in which the fits of one file may differ; of the last two parts only the numbers."""
_NUMBERS = {"inference": ("curvature", "scores"), "roc": ("counts", "middle", "spread")}


def is_strata(value: Any) -> bool:
    """Whether a value that was read from a file is one of strata."""
    return isinstance(value, dict) and value.get("format") == FORMAT


def strata_bytes(strata: Strata) -> bytes:
    """The content of the file, which is read again before it is returned.

    Raises
    ------
    ReleaseFileError
        If a fit has no place in a file. The message is part of a sentence.
    """
    fits = [json.loads(release_file.release_bytes(fit)) for fit in strata.fits.values()]
    content = {"format": FORMAT, "version": VERSION, "by": strata.by, "fits": fits}
    document = {**content, "sha256": _hash(content)}
    found = restore_strata(document)
    if found.levels != strata.levels or found.by != strata.by:
        raise ReleaseFileError("the strata would not be read back")
    return f"{spell_json(document)}\n".encode()


def _hash(document: dict[str, Any]) -> str:
    rest = {name: document[name] for name in ("format", "version", "by", "fits")}
    return hashlib.sha256(canonical(rest)).hexdigest()


def restore_strata(value: dict[str, Any]) -> Strata:
    """The strata of a value that was read from a file; see `privatelr.load`.

    Raises
    ------
    ReleaseFileError
        If the file is wrong. The message is part of a sentence.
    """
    require_version(value, VERSION)
    if value.keys() != _NAMES:
        raise ReleaseFileError(f"a file of strata takes the entries {', '.join(sorted(_NAMES))}")
    documents = value["fits"]
    if not isinstance(documents, list) or not documents:
        raise ReleaseFileError("fits takes a list of releases")
    if value["sha256"] != _hash(value):
        raise ReleaseFileError(
            "its content does not have the hash that it states, so it was changed after saving"
        )
    fits = dict[Any, Fit]()
    for document in documents:
        fit = release_file.restore_fit(document)
        by = fit.spec.formula.by
        if not isinstance(fit, Fit) or by is None or by.column != value["by"]:
            raise ReleaseFileError("fits takes a fit for each level of the column by")
        if by.level is None or by.level in fits:
            raise ReleaseFileError("fits takes one fit for each level")
        fits[by.level] = fit
    first = next(iter(fits.values()))
    declared = first.spec.variables[value["by"]].levels
    if tuple(fits) != declared:
        raise ReleaseFileError("fits takes a fit for each declared level, in their order")
    if (
        len({_without_level(fit) for fit in fits.values()}) > 1
        or len({canonical(_shared(each)) for each in documents}) > 1
    ):
        raise ReleaseFileError("fits takes releases that differ in nothing but their levels")
    # one object, by which a table of fits knows that they were paid for once
    made = first.release.calibration
    for level, fit in fits.items():
        fits[level] = replace(fit, release=replace(fit.release, calibration=made))
    return Strata(value["by"], fits)


def _without_level(fit: Fit) -> str:
    formula = fit.spec.formula
    return formula.text.replace(formula.by.label, "") if formula.by else formula.text


def _shared(document: dict[str, Any]) -> dict[str, Any]:
    """What releases of one call have in common."""
    rest = {name: entry for name, entry in document.items() if name not in _OWN}
    design = {name: entry for name, entry in rest["design"].items() if name != "formula"}
    for name, numbers in _NUMBERS.items():
        part = document.get(name)
        if isinstance(part, dict):
            rest[name] = {k: entry for k, entry in part.items() if k not in numbers}
    return {**rest, "design": design}
