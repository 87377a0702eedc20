"""Calibrations and choices of mechanisms that choose columns, as entries of a file and back.

The calibration is computed anew on reading from what determines it, by the formulas that a fit
goes through, and the choices have to be worth the guarantee.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from privatelr.errors import ReleaseFileError
from privatelr.mechanisms.linear_programs import (
    ProgramCalibration,
    ProgramFacts,
    calibrate_program,
)
from privatelr.mechanisms.selection_release import SelectionCalibration, Selections
from privatelr.mechanisms.simplex import (
    SimplexCalibration,
    SimplexProblem,
    Stability,
    stability_of,
    tolerance_of,
)
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, NonPrivate, PureDP
from privatelr.results.release_files import calibration_entries as entries
from privatelr.results.release_files.calibration_file import (
    guarantee_entry,
    loss_entry,
    require_worth,
    restore_loss,
    restore_target,
)
from privatelr.results.release_files.document_entries import ChoicesEntry
from privatelr.results.release_files.json_values import named, require_same
from privatelr.types import IntArray

# -- writing ---------------------------------------------------------------------------------


def selection_entry(
    calibration: SelectionCalibration,
) -> entries.AnySelection:
    """A calibration as an entry, all of it public; a new mechanism is listed here."""
    made: Any = calibration
    target = guarantee_entry(made.target)
    if isinstance(made, ProgramCalibration):
        eta = None if made.choice is None else made.eta
        return entries.WeightsEntry.of(made, made.problem, target=target, eta=eta)
    return entries.SimplexEntry.of(
        made,
        made.problem,
        target=target,
        loss=loss_entry(made.problem.loss),
        stability=made.stability and entries.StabilityEntry.of(made.stability),
    )


def choices_entry(release: Selections) -> ChoicesEntry:
    """What was chosen, and how often."""
    chosen = np.flatnonzero(release.counts)
    return ChoicesEntry(
        options=chosen.tolist(),
        times=release.counts[chosen].tolist(),
        path=None if release.path is None else release.path.tolist(),
        exact=None if release.exact is None else release.exact.tolist(),
    )


# -- reading ---------------------------------------------------------------------------------


def restore_selection(entry: entries.AnySelection) -> SelectionCalibration:
    """The calibration that `selection_entry` wrote.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or choices that cost more than the target.
    """
    target = restore_target(entry.target, "calibration.target")
    with named("calibration"):
        if isinstance(entry, entries.SimplexEntry):
            return _restore_simplex(entry, target)
        facts = ProgramFacts(entry.n, entry.d, entry.x_bound, entry.density)
        found = calibrate_program(facts, target, entry.rounds, entry.step, entry.score, entry.slack)
    _require_derived(entry, found)
    return replace(
        found,
        rounds_origin=entry.rounds_origin,
        sensitivity=entry.sensitivity,
        eta=found.eta if entry.eta is None else entry.eta,
    )


def _require_derived(entry: entries.AnySelection, found: SelectionCalibration) -> None:
    """Refuse numbers that do not follow; those of the file are used then, as they were written."""
    derived = msgspec.to_builtins(selection_entry(found))
    for name in ("sensitivity", "eta", "tolerance", "stability"):
        if name in derived:
            given = msgspec.to_builtins(getattr(entry, name))
            require_same(given, derived[name], f"calibration.{name}")


def _restore_simplex(entry: entries.SimplexEntry, target: Guarantee) -> SimplexCalibration:
    plain = isinstance(target, NonPrivate)
    if plain != (entry.draws == 0):
        raise ReleaseFileError("calibration.draws takes 0 without a guarantee, and only then")
    loss = restore_loss(entry.loss, "calibration.loss")
    problem = SimplexProblem(entry.n, entry.d, entry.x_bound, entry.radius, loss, entry.lambda_)
    found = SimplexCalibration(
        problem,
        target,
        entry.draws,
        None if plain else stability_of(problem),
        tolerance_of(problem),
        entry.lambda_origin,
    )
    _require_derived(entry, found)
    stability = Stability(**structs.asdict(entry.stability)) if entry.stability else None
    calibration = replace(found, stability=stability, tolerance=entry.tolerance)
    if not plain:
        require_worth(lambda: _worth_of_draws(calibration), target, "calibration")
    return calibration


def _worth_of_draws(calibration: SimplexCalibration) -> Guarantee:
    """What the draws cost, as a guarantee of the kind of the target."""
    cost, target = calibration.cost, calibration.target
    match target:
        case ZCDP():
            return ZCDP(cost, target.neighbours)
        case ApproxDP():
            return ApproxDP(cost, target.delta, target.neighbours)
    return PureDP(cost, target.neighbours)


def restore_choices(entry: ChoicesEntry, calibration: SelectionCalibration) -> Selections:
    """The choices that `choices_entry` wrote, under a calibration."""
    d, options = calibration.problem.d, entry.options
    if options != sorted(set(options)) or max(options, default=0) >= 2 * d:
        raise ReleaseFileError("choices.options takes positions in order, each once")
    if len(entry.times) != len(options):
        raise ReleaseFileError("choices.times takes one number for each option")
    counts = np.zeros(2 * d, dtype=np.intp)
    counts[options] = entry.times
    made: Any = calibration
    ordered = isinstance(made, ProgramCalibration)
    if counts.sum() != (made.rounds if ordered else made.draws):
        raise ReleaseFileError("choices.times does not add up to the number of choices")
    if (entry.path is not None) != ordered:
        raise ReleaseFileError("choices.path takes the order of choices where it is released")
    exact = None if entry.exact is None else np.array(entry.exact, dtype=np.float64)
    if exact is not None and not (isinstance(calibration.target, NonPrivate) and len(exact) == d):
        raise ReleaseFileError(f"choices.exact takes null, or {d} numbers without a guarantee")
    return Selections(
        counts, calibration, calibration.target, path=_path(entry.path, counts), exact=exact
    )


def _path(listed: list[int] | None, counts: IntArray) -> IntArray | None:
    if listed is None:
        return None
    found = np.array(listed, dtype=np.intp)
    known = found.size == 0 or found.max() < len(counts)
    if not known or not np.array_equal(np.bincount(found, minlength=len(counts)), counts):
        raise ReleaseFileError("choices.path does not count as choices.times says")
    return found
