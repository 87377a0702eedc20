"""Declarations that were paid for, as entries of a file: suggested bounds, and released levels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from privatelr.errors import ReleaseFileError
from privatelr.mechanisms.level_selection import (
    LevelCalibration,
    are_in_order,
    calibrate_levels,
)
from privatelr.mechanisms.range_selection import (
    RangeCalibration,
    calibrate_ranges,
    candidate_ends,
)
from privatelr.privacy import ApproxDP, Promise
from privatelr.results.release_files import answer_entries as entries
from privatelr.results.release_files import calibration_file as parts
from privatelr.results.release_files import document as documents
from privatelr.results.release_files import json_values
from privatelr.sources import declare_schema

if TYPE_CHECKING:
    from privatelr.results.declarations import Range, ReleasedLevels, SuggestedBounds


def ranges_entry(answer: SuggestedBounds) -> entries.RangesEntry:
    """Suggested bounds as an entry."""
    made = answer.calibration
    return entries.RangesEntry(
        n=made.n,
        target=documents.as_entry(made.target),
        columns=[
            entries.RangeEntry(name=name, outer=list(outer), suggested=list(answer.ranges[name]))
            for name, outer in answer.outer.items()
        ],
        eta=made.eta,
        beyond=made.beyond,
        identifier=answer.identifier,
    )


def levels_entry(answer: ReleasedLevels) -> entries.LevelsEntry:
    """Released levels as an entry."""
    made = answer.calibration
    half, always = made.ladder
    return entries.LevelsEntry(
        n=answer.n,
        column=answer.column,
        target=documents.as_entry(made.target),
        half=half,
        always=always,
        levels=documents.as_entry(answer.found),
        identifier=answer.identifier,
    )


def restore_ranges(
    given: entries.RangesEntry,
) -> tuple[Mapping[str, Range], Mapping[str, Range], RangeCalibration]:
    """The suggested ranges of an entry, the outer ones, and the numbers of the choices."""
    target = parts.restore_target(given.target, "answer.target", parts.neighbours_of(given.target))
    assert isinstance(target, Promise)
    if len({one.name for one in given.columns}) < len(given.columns):
        raise ReleaseFileError("answer.columns takes each column once")
    with json_values.named("answer.columns"):
        outer = dict(declare_schema({one.name: one.outer for one in given.columns}).bounds)
    ends = {name: candidate_ends(*pair) for name, pair in outer.items()}
    with json_values.named("answer"):
        made = calibrate_ranges(given.n, [len(found) - 1 for found in ends.values()], target)
    for place, one in enumerate(given.columns):
        low, high = one.suggested
        if not (np.isin(one.suggested, ends[one.name]).all() and low < high):
            raise ReleaseFileError(
                f"answer.columns[{place}].suggested takes two candidates of its outer range, the "
                "lower one first"
            )
    return {one.name: (one.suggested[0], one.suggested[1]) for one in given.columns}, outer, made


def restore_levels(
    given: entries.LevelsEntry,
) -> tuple[tuple[Hashable, ...], LevelCalibration]:
    """The released levels of an entry, and the chances by which they were released."""
    target = parts.restore_target(given.target, "answer.target", parts.neighbours_of(given.target))
    assert isinstance(target, ApproxDP)
    with json_values.named("answer.target"):
        calibration = calibrate_levels(target)
    if not are_in_order(given.levels):
        raise ReleaseFileError("answer.levels takes different levels, in increasing order")
    if len(given.levels) > given.n:
        raise ReleaseFileError("answer.levels takes no more levels than there are records")
    return tuple(given.levels), calibration
