"""Choices of columns as plain values, and back again, with their guarantee recomputed.

The calibration is written as what determines it; whatever follows is computed anew on reading,
by the formulas that a fit goes through, and the choices have to be worth the guarantee.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import ReleaseFileError
from privatelr.mechanisms.selections import Selections
from privatelr.privacy.guarantees import NonPrivate
from privatelr.results.choices_file import CHOOSERS
from privatelr.results.json_values import choice, entries, listing, numbers, refuse, whole

if TYPE_CHECKING:
    from privatelr.mechanisms.selections import SelectionCalibration
    from privatelr.types import FloatArray, IntArray

_MOST_TIMES = 10**9
_CHOICES = ("options", "times", "path", "exact")


# -- writing ---------------------------------------------------------------------------------


def is_selection(value: Any) -> bool:
    """Whether a calibration in a file is one of choices."""
    return isinstance(value, dict) and "mechanism" in value


def selection_entry(calibration: SelectionCalibration) -> dict[str, Any]:
    """A calibration as plain values, all of them public."""
    chooser = CHOOSERS[calibration.mechanism]
    return {"mechanism": calibration.mechanism, **chooser.write(calibration)}


def choices_entry(release: Selections) -> dict[str, Any]:
    """What was chosen, and how often."""
    chosen = np.flatnonzero(release.counts)
    return {
        "options": chosen.tolist(),
        "times": release.counts[chosen].tolist(),
        "path": None if release.path is None else release.path.tolist(),
        "exact": None if release.exact is None else release.exact.tolist(),
    }


# -- reading ---------------------------------------------------------------------------------


def restore_selection(value: Any) -> SelectionCalibration:
    """The calibration that `selection_entry` wrote.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or choices that cost more than the target.
    """
    where = "calibration"
    chooser = CHOOSERS[choice(value["mechanism"], f"{where}.mechanism", CHOOSERS)]
    given = entries(value, where, ("mechanism", *chooser.names))
    return chooser.read(given, where)


def restore_choices(value: Any, calibration: SelectionCalibration) -> Selections:
    """The choices that `choices_entry` wrote, under a calibration."""
    where = "choices"
    given = entries(value, where, _CHOICES)
    d = calibration.problem.d
    options = [
        whole(item, f"{where}.options[{i}]", 0, 2 * d - 1)
        for i, item in enumerate(listing(given["options"], f"{where}.options"))
    ]
    if options != sorted(set(options)):
        raise ReleaseFileError(f"{where}.options takes positions in order, each once")
    times = listing(given["times"], f"{where}.times")
    if len(times) != len(options):
        raise ReleaseFileError(f"{where}.times takes one number for each option")
    counts = np.zeros(2 * d, dtype=np.intp)
    for i, (option, item) in enumerate(zip(options, times, strict=True)):
        counts[option] = whole(item, f"{where}.times[{i}]", 1, _MOST_TIMES)
    path, exact = _path(given["path"], counts), _exact(given["exact"], calibration)
    chooser = CHOOSERS[calibration.mechanism]
    if counts.sum() != chooser.choices(calibration):
        raise ReleaseFileError(f"{where}.times does not add up to the number of choices")
    if (path is not None) != (chooser.is_ordered):
        refuse(f"{where}.path", "the order of choices where the mechanism releases it", path)
    return Selections(counts, calibration, calibration.target, path=path, exact=exact)


def _path(value: Any, counts: IntArray) -> IntArray | None:
    if value is None:
        return None
    where = "choices.path"
    listed = listing(value, where)
    path = [whole(item, f"{where}[{i}]", 0, len(counts) - 1) for i, item in enumerate(listed)]
    found = np.array(path, dtype=np.intp)
    if not np.array_equal(np.bincount(found, minlength=len(counts)), counts):
        raise ReleaseFileError(f"{where} does not count as choices.times says")
    return found


def _exact(value: Any, calibration: SelectionCalibration) -> FloatArray | None:
    if value is None:
        return None
    if not isinstance(calibration.target, NonPrivate):
        raise ReleaseFileError("choices.exact takes null beside a guarantee")
    return numbers(value, "choices.exact", calibration.problem.d)
