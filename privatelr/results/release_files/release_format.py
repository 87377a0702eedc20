"""What is round the content of a release file: format and version, hash, who wrote it.

A version of the format has a fixed set of entries, and all versions are read. Only the list of
programs is open, because a later version of this package may use other libraries.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from typing import Any

import privatelr
from privatelr.errors import ReleaseFileError, show
from privatelr.results.release_files.calibration_file import phrase
from privatelr.results.release_files.json_values import canonical, entries, refuse

FORMAT = "privatelr release"
VERSION = 2
_ENTRIES = (
    *("format", "version", "notice", "written_by", "guarantee", "randomness", "calibration"),
    *("inference", "choices", "ledger", "design", "coefficients", "threshold", "sha256"),
)
_ENTRIES_OF = {1: _ENTRIES, 2: (*_ENTRIES, "signature")}
"""Entries of each version of the format; all of them are read, and the last one is written."""
_UNHASHED = ("sha256", "signature")
_MOST_PROGRAMS = 100
_LIBRARIES = ("formulaic", "numpy", "pandas", "python-flint", "scipy")


# -- writing ---------------------------------------------------------------------------------


def content_hash(document: dict[str, Any]) -> str:
    """SHA-256 of all entries but the hash itself and a signature of it, in canonical spelling."""
    rest = {name: value for name, value in document.items() if name not in _UNHASHED}
    return hashlib.sha256(canonical(rest)).hexdigest()


def versions() -> dict[str, str]:
    """Programs and their versions, as this one writes them."""
    libraries = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {
        "privatelr": privatelr.__version__,
        "python": platform.python_version(),
        **libraries,
    }


# -- reading ---------------------------------------------------------------------------------


def require_content(document: Any) -> dict[str, Any]:
    """A document of a known version that has its entries and the hash that it states.

    Raises
    ------
    ReleaseFileError
        Part of a sentence that says what is wrong.
    """
    given = entries(document, "the file", _ENTRIES_OF[_version_of(document)])
    if given["sha256"] != content_hash(given):
        raise ReleaseFileError(
            "its content does not have the hash that it states, so it was changed after saving"
        )
    return given


def _version_of(document: Any) -> int:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ReleaseFileError("the file is JSON, and not a release of privatelr")
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise ReleaseFileError(
            f"the file has version {version} of the format, and privatelr {privatelr.__version__} "
            f"reads up to version {VERSION}; upgrade privatelr"
        )
    if type(version) is not int or version not in _ENTRIES_OF:
        known = " or ".join(map(str, _ENTRIES_OF))
        raise ReleaseFileError(f"version takes {known}, not {show(version)}")
    return version


def written_by(given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Programs and their versions; a later version may use libraries that this one does not."""
    programs = given["written_by"]
    known = {"privatelr", "python"}
    if not isinstance(programs, dict) or not known <= programs.keys():
        refuse("written_by", "an object with the entries 'privatelr' and 'python'", programs)
    if len(programs) > _MOST_PROGRAMS:
        raise ReleaseFileError(f"written_by takes at most {_MOST_PROGRAMS} entries")
    for name, version in programs.items():
        phrase(name, "a name in written_by")
        phrase(version, f"written_by.{name}")
    return tuple(programs.items())
