"""Restoring guarantees, noise, calibrations, moments and choices from the entries of a file.

No claim is trusted: the noise must be enough for the guarantee, by the formulas that chose it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import msgspec
import numpy as np

from privatelr.design import DesignSpec
from privatelr.errors import GuaranteeError, ReleaseFileError
from privatelr.mechanisms import (
    Moments,
    Problem,
    ScaleRelease,
    calibration,
    read_target,
)
from privatelr.mechanisms.calibration import (
    Calibration,
    MomentsCalibration,
    ScaleCalibration,
    ScaleFacts,
    achieved_moments,
    achieved_scale,
)
from privatelr.mechanisms.score_histogram import (
    HistogramCalibration,
    HistogramRelease,
    ScoreScale,
    achieved_histogram,
)
from privatelr.mechanisms.verify import achieved
from privatelr.numerics import Loss, find_loss
from privatelr.privacy import (
    REPLACE_ONE,
    ZCDP,
    Guarantee,
    Neighbours,
    NonPrivate,
    PureDP,
    from_json,
    implies,
    noise,
    prices,
)
from privatelr.results.release_files import calibration_entries as entries
from privatelr.results.release_files.document import calibration_entry, loss_entry, plain
from privatelr.results.release_files.document_entries import MomentsEntry
from privatelr.results.release_files.json_values import CLOSE, named, require_same
from privatelr.results.release_files.noise_file import read_blocks, read_law
from privatelr.selection import multiplicative_weights, simplex
from privatelr.selection.choices import SelectionCalibration, Selections
from privatelr.types import Block, FloatArray

FARTHEST = 1000.0
"""Noise beyond this number of standard deviations is never drawn, so a file with it is refused."""


def record_of(kind: Any, entry: Any, **given: Any) -> Any:
    """A record of class `kind`, with the given fields, and all other fields from an entry."""
    for field in fields(kind):
        if field.name not in given and hasattr(entry, field.name):
            given[field.name] = getattr(entry, field.name)
    return kind(**given)


# -- guarantees and losses ---------------------------------------------------------------------


def restore_guarantee(entry: entries.GuaranteeEntry | entries.SharedEntry, where: str) -> Guarantee:
    """The guarantee of an entry."""
    with named(where):
        guarantee: Guarantee = from_json(msgspec.to_builtins(entry))
    return guarantee


def restore_target(entry: Any, where: str, about: Neighbours = REPLACE_ONE) -> Guarantee:
    """The guarantee for which noise was calibrated; it must be one that a fit accepts."""
    target = restore_guarantee(entry, where)
    if not isinstance(target, NonPrivate):
        with named(where):
            read_target(target, 0.0, neighbours=about)
    return target


def neighbours_of(entry: Any) -> Neighbours:
    """What the guarantee of an entry is about."""
    return Neighbours[entry.neighbours]


def restore_loss(entry: entries.LossEntry, where: str = "calibration.loss") -> Loss:
    """The loss of an entry."""
    given: dict[str, Any] = {"name": entry} if isinstance(entry, str) else {"name": "", **entry}
    with named(where):
        loss = find_loss(**given)
    if loss_entry(loss) != entry:
        raise ReleaseFileError(f"{where} takes the name of a loss, or of a family and its numbers")
    return loss


# -- noise -------------------------------------------------------------------------------------


def restore_calibration(entry: entries.PerturbationEntry, facts: Mapping[str, Any]) -> Calibration:
    """The calibration of noise that an entry describes, with what the design has of a `Problem`.

    Raises
    ------
    ReleaseFileError
        If an entry is wrong, or the noise does not give the target, in a part of a sentence.
    """
    about = neighbours_of(entry.target)
    target = restore_target(entry.target, "calibration.target", about)
    if entry.lambda_ == 0 and not isinstance(target, NonPrivate):
        raise ReleaseFileError("calibration.lambda takes a number above 0 beside a guarantee")
    blocks = read_blocks(entry.blocks)
    if len({block.bound for block in blocks if block.norm == "l2"}) > 1:
        raise ReleaseFileError("calibration.blocks takes one bound for all blocks under 'l2'")
    if blocks and sum(block.size for block in blocks) != entry.d:
        raise ReleaseFileError(f"calibration.blocks takes sizes that add up to d = {entry.d}")
    persons, loss = about is not REPLACE_ONE, restore_loss(entry.loss)
    classes = 2 if isinstance(entry.classes, msgspec.UnsetType) else entry.classes
    known = {"loss": loss, "blocks": blocks, "persons": persons, "classes": classes}
    with named("calibration"):
        problem = record_of(Problem, entry, **known, **facts)
    found: Calibration = record_of(
        Calibration,
        entry,
        problem=problem,
        target=target,
        noise=read_law(entry.noise, "calibration.noise", problem.size, blocks),
        shield=read_law(entry.shield, "calibration.shield", problem.size, blocks),
        lambda_rules=tuple((rule.rule, rule.lambda_) for rule in entry.lambda_rules),
        written=tuple(
            (other.noise, math.inf if other.ratio is None else other.ratio)
            for other in entry.alternatives
        ),
    )
    if not _is_plain("calibration", found, found.noise, found.shield):
        require_worth(achieved, found, "calibration")
    return found


def restore_moments(entry: MomentsEntry | None, problem: Problem) -> Moments | None:
    """The moments that an entry describes, for coefficients of this problem.

    Raises
    ------
    ReleaseFileError
        If an entry is wrong, or the noise does not give the target, in a part of a sentence.
    """
    if entry is None:
        return None
    most, d = calibration.MOST_COLUMNS, problem.d
    if d > most:
        raise ReleaseFileError(f"inference takes null beside more than {most} columns")
    if problem.lambda_ == 0:
        raise ReleaseFileError("inference takes null beside a fit without a penalty")
    typical = None if isinstance(entry.typical, msgspec.UnsetType) else entry.typical
    if typical != calibration.clip_for(problem, typical):
        raise ReleaseFileError("inference.typical takes a length that is well below the radius")
    found = MomentsCalibration(
        problem=problem,
        target=restore_target(entry.target, "inference.target", problem.neighbours),
        balance=calibration.moments_balance(problem, typical),
        noise=read_law(entry.noise, "inference.noise", d * (d + 1)),
        grid=entry.grid,
        typical=typical,
    )
    if not _is_plain("inference", found, found.noise):
        require_worth(achieved_moments, found, "inference")
    curvature = _read_triangle(entry.curvature, "inference.curvature", found)
    scores = _read_triangle(entry.scores, "inference.scores", found)
    return Moments(np.concatenate([curvature, scores]), found)


def restore_scale(entry: entries.ScaleEntry, spec: DesignSpec, problem: Problem) -> ScaleRelease:
    """The moments of columns that an entry describes, for a plan of standardised rows.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or noise that does not give the target.
    """
    standard = spec.standard
    assert standard is not None
    known = calibration.scale_floor(problem.loss), spec.intercept or 0.0, problem.persons
    facts = ScaleFacts(problem.n, standard.groups, standard.centred, *known, standard.length)
    target = restore_target(entry.target, "scale.target", problem.neighbours)
    if not isinstance(target, PureDP | ZCDP):
        raise ReleaseFileError("scale.target takes a pure guarantee, or one of rho")
    shape = ScaleCalibration(facts, target, noise.NoNoise(1), entry.grid)
    size = len(shape.means) + len(shape.squares)
    blocks = calibration.scale_blocks(facts) if isinstance(target, PureDP) else ()
    found = replace(shape, noise=read_law(entry.noise, "scale.noise", size, blocks))
    if not _is_plain("scale", found, found.noise):
        require_worth(achieved_scale, found, "scale")
    if len(entry.means) != len(shape.means) or len(entry.squares) != len(shape.squares):
        raise ReleaseFileError("scale.means and scale.squares take a number for each column")
    values = np.array([*entry.means, *entry.squares], dtype=np.float64)
    if np.any(np.fmod(values, entry.grid)):
        raise ReleaseFileError("scale takes multiples of the grid")
    largest = max(1.0, *(group.largest for group in facts.groups))
    most = shape.weight * largest**2 + FARTHEST * math.sqrt(found.noise.variances.max())
    if np.any(np.abs(values) > most):
        raise ReleaseFileError("scale takes numbers that rows and noise can make")
    return ScaleRelease(values, found)


def restore_histogram(
    entry: Any, n: int, about: Neighbours = REPLACE_ONE, touched: int = 1, where: str = "roc"
) -> HistogramRelease | None:
    """The counts of scores that an entry describes, without the guarantee of their release.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or noise that does not give the target.
    """
    if isinstance(entry, msgspec.UnsetType):
        return None
    target = restore_target(entry.target, f"{where}.target", about)
    cells = 2 * entry.bins + 1
    alone = (Block(cells, 1.0),)
    law = read_law(entry.noise, f"{where}.noise", cells, alone)
    found = HistogramCalibration(n, entry.bins, target, law, touched)
    if isinstance(target, NonPrivate) != isinstance(law, noise.NoNoise):
        raise ReleaseFileError(f"{where}.noise takes none without a guarantee, and only then")
    if target.is_private:
        require_worth(achieved_histogram, found, where)
    if len(entry.counts) != cells:
        raise ReleaseFileError(f"{where}.counts takes {cells} numbers beside {entry.bins} bins")
    if max(map(abs, entry.counts)) > n + FARTHEST * max(found.count_sd, 1.0):
        raise ReleaseFileError(f"{where}.counts takes numbers that records and noise can make")
    scale = ScoreScale(entry.middle, entry.spread)
    return HistogramRelease(np.array(entry.counts, dtype=np.float64), scale, found, target)


def _read_triangle(rows: list[list[float]], where: str, made: MomentsCalibration) -> FloatArray:
    """One of the two matrices of the moments, as a vector ``(d (d + 1) / 2,)``."""
    problem = made.problem
    if [len(row) for row in rows] != list(range(problem.d, 0, -1)):
        raise ReleaseFileError(f"{where} takes rows of {problem.d} numbers down to one")
    found = np.concatenate([np.array(row, dtype=np.float64) for row in rows])
    if made.grid and np.any(np.fmod(found, made.grid)):
        raise ReleaseFileError(f"{where} takes multiples of the grid")
    # a mean over n rows is at most n times the largest change that one row can cause
    reach = calibration.moments_sensitivity(problem, made.typical)
    largest = problem.n * reach + FARTHEST * made.entry_sd
    if np.any(np.abs(found) > largest):
        raise ReleaseFileError(f"{where} takes numbers that rows and noise can make")
    return found


def _is_plain(where: str, made: Any, *laws: noise.NoiseLaw) -> bool:
    """Whether a part has no guarantee.

    Raises `ReleaseFileError` if a part without a guarantee has noise or a grid, or if the grid of
    any other part is not a power of two.
    """
    if isinstance(made.target, NonPrivate):
        silent = all(isinstance(law, noise.NoNoise) for law in laws)
        if made.grid or getattr(made, "tau", 0.0) or not silent:
            raise ReleaseFileError(f"{where}: a part without a guarantee has no noise or grid")
        return True
    if math.frexp(made.grid)[0] != 0.5:
        raise ReleaseFileError(f"{where}.grid takes a power of two")
    return False


def require_worth(worth: Callable[[Any], Guarantee], made: Any, where: str) -> None:
    """Raise an error if noise does not give its target, up to rounding.

    Parameters
    ----------
    worth
        A function that computes the guarantee from the numbers of the calibration; it raises an
        error if nothing is proven about these.
    made
        The calibration, with the target that the file claims.
    where
        The name of the entry, for the error message.
    """
    target = made.target
    room = {name: value * (1 + CLOSE) for name, value in prices(target).items()}
    if "delta" in room:
        room["delta"] = min(room["delta"], 1.0)
    try:
        found = worth(made)
        enough = implies(found, replace(target, **room))
    except (GuaranteeError, ArithmeticError, ValueError):
        raise ReleaseFileError(
            f"{where}: nothing is proven about this noise for this target"
        ) from None
    if not enough:
        raise ReleaseFileError(
            f"{where}: the noise gives {found}, which is less than the target {target}"
        )


# -- choices -----------------------------------------------------------------------------------


def restore_selection(entry: entries.AnySelection) -> SelectionCalibration:
    """The calibration of choices that an entry describes, computed again from its parameters.

    The derived numbers must agree with those of the file up to rounding; the result has those of
    the file.

    Raises
    ------
    ReleaseFileError
        If an entry is wrong, or the choices cost more than the target. The message is part of a
        sentence.
    """
    target, found = restore_target(entry.target, "calibration.target"), None
    plainly = isinstance(target, NonPrivate)
    with named("calibration"):
        if isinstance(entry, entries.WeightsEntry):
            terms = entry.rounds, entry.step, entry.score, entry.slack
            facts = record_of(multiplicative_weights.ProgramFacts, entry)
            found = multiplicative_weights.calibrate_program(facts, target, *terms)
            eta = found.eta if entry.eta is None else entry.eta
            kept: dict[str, Any] = {"sensitivity": entry.sensitivity, "eta": eta}
            found = replace(found, rounds_origin=entry.rounds_origin)
        else:
            if plainly != (entry.draws == 0):
                raise ReleaseFileError(
                    "calibration.draws takes 0 without a guarantee, and only then"
                )
            loss = restore_loss(entry.loss)
            problem = record_of(simplex.SimplexProblem, entry, loss=loss)
            found = record_of(
                simplex.SimplexCalibration,
                entry,
                problem=problem,
                target=target,
                stability=None if plainly else simplex.stability_of(problem),
                tolerance=simplex.tolerance_of(problem),
            )
            stability = entry.stability and record_of(simplex.Stability, entry.stability)
            kept = {"stability": stability, "tolerance": entry.tolerance}
    require_same(plain(entry), plain(calibration_entry(found)), "calibration")
    made: SelectionCalibration = replace(found, **kept)
    if isinstance(entry, entries.SimplexEntry) and not plainly:
        price = next(iter(prices(target)))  # the cost of the draws is an epsilon or a rho
        require_worth(lambda draws: replace(target, **{price: draws.cost}), made, "calibration")
    return made


def restore_choices(entry: entries.ChoicesEntry, made: SelectionCalibration) -> Selections:
    """The choices that an entry describes, under a calibration."""
    d, options, path = made.problem.d, entry.options, entry.path
    if max(options, default=0) >= 2 * d or len(entry.times) != len(options):
        raise ReleaseFileError("choices.options takes positions, and choices.times one number each")
    counts = np.zeros(2 * d, dtype=np.intp)
    counts[options] = entry.times
    ordered = isinstance(made, multiplicative_weights.ProgramCalibration)
    if counts.sum() != getattr(made, "rounds" if ordered else "draws"):
        raise ReleaseFileError("choices.times does not add up to the number of choices")
    if (path is not None) != ordered:
        raise ReleaseFileError("choices.path takes the order of choices where it is released")
    if path is not None and (
        max(path, default=0) >= 2 * d
        or not np.array_equal(np.bincount(path, minlength=2 * d), counts)
    ):
        raise ReleaseFileError("choices.path does not count as choices.times says")
    exact = entry.exact
    if exact is not None and not (isinstance(made.target, NonPrivate) and len(exact) == d):
        raise ReleaseFileError(f"choices.exact takes null, or {d} numbers without a guarantee")
    return Selections(
        counts,
        made,
        made.target,
        path=None if path is None else np.array(path, dtype=np.intp),
        exact=None if exact is None else np.array(exact, dtype=np.float64),
    )
