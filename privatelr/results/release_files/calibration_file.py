"""Guarantees, noise laws, calibrations and moments as entries of a file, and back again.

Nothing is taken on trust: the noise has to be enough for the guarantee that the file claims, by
the same formulas that chose it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np

from privatelr.errors import GuaranteeError, ReleaseFileError
from privatelr.mechanisms import Moments, Problem, read_target
from privatelr.mechanisms.calibration import (
    MOST_COLUMNS,
    Alternative,
    Calibration,
    MomentsCalibration,
    achieved_moments,
    moments_balance,
    moments_sensitivity,
)
from privatelr.mechanisms.verify import achieved
from privatelr.numerics import Loss, find_loss
from privatelr.privacy import ZCDP, ApproxDP, Guarantee, NonPrivate, PureDP, conversions, implies
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, NoiseLaw, NoNoise, SphericalLaplace
from privatelr.results.release_files import calibration_entries as entries
from privatelr.results.release_files.document_entries import MomentsEntry
from privatelr.results.release_files.json_values import CLOSE, named, require_same
from privatelr.types import Block, FloatArray

_GUARANTEES: dict[type[Guarantee], Any] = {
    PureDP: entries.PureEntry,
    ZCDP: entries.ZcdpEntry,
    ApproxDP: entries.ApproximateEntry,
    NonPrivate: entries.NoGuaranteeEntry,
}
_LAWS: dict[type[NoiseLaw], Any] = {
    SphericalLaplace: entries.SphericalEntry,
    GaussianNoise: entries.GaussianEntry,
    NoNoise: entries.NoNoiseEntry,
}
"""Laws on vectors of a dimension; a new law has its entry here."""
_FARTHEST = 1000.0
"""Standard deviations; no noise was ever drawn that far out."""


# -- writing ---------------------------------------------------------------------------------


def guarantee_entry(guarantee: Guarantee) -> entries.GuaranteeEntry:
    """A guarantee as an entry."""
    kind: Any = _GUARANTEES[type(guarantee)]
    entry: entries.GuaranteeEntry = kind.of(guarantee, neighbours=guarantee.neighbours.name)
    return entry


def calibration_entry(calibration: Calibration) -> entries.PerturbationEntry:
    """A calibration as an entry, all of it public."""
    problem = calibration.problem
    return entries.PerturbationEntry.of(
        calibration,
        problem,
        target=guarantee_entry(calibration.target),
        loss=loss_entry(problem.loss),
        blocks=_blocks_entry(problem.blocks),
        lambda_rules=[entries.RuleEntry(rule=r, lambda_=x) for r, x in calibration.lambda_rules],
        noise=_law_entry(calibration.noise),
        shield=_law_entry(calibration.shield),
        alternatives=[
            entries.AlternativeEntry(noise=o.title, ratio=o.ratio if o.ratio < math.inf else None)
            for o in calibration.alternatives
        ],
    )


def loss_entry(loss: Loss) -> entries.LossEntry:
    """The name of a loss, beside the numbers that pick it from its family if there are any."""
    return {"name": loss.name, **loss.parameters} if loss.parameters else loss.name


def _law_entry(law: NoiseLaw) -> entries.LawEntry:
    if isinstance(law, BlockLaplace):
        return entries.BlockLaplaceEntry(blocks=_blocks_entry(law.blocks), rate=law.rate)
    entry: entries.LawEntry = _LAWS[type(law)].of(law)
    return entry


def _blocks_entry(blocks: tuple[Block, ...]) -> list[entries.BlockEntry]:
    """Blocks of columns; the usual norm is not named."""
    return [
        entries.BlockEntry.of(block, norm=msgspec.UNSET if block.norm == "l1" else block.norm)
        for block in blocks
    ]


def moments_entry(moments: Moments) -> MomentsEntry:
    """The moments as they were released, since the law of the noise is about those numbers."""
    calibration = moments.calibration
    curvature, scores = np.split(moments.values, 2)
    return MomentsEntry.of(
        calibration,
        target=guarantee_entry(calibration.target),
        noise=_law_entry(calibration.noise),
        curvature=_triangle(curvature, calibration.problem.d),
        scores=_triangle(scores, calibration.problem.d),
    )


def _triangle(svec: FloatArray, d: int) -> list[list[float]]:
    """Rows of the upper triangle, each from its diagonal on."""
    ends = list(accumulate(range(d, 1, -1)))
    return [row.tolist() for row in np.split(svec, ends)]


# -- reading ---------------------------------------------------------------------------------


def restore_guarantee(entry: entries.GuaranteeEntry, where: str) -> Guarantee:
    """The guarantee of an entry."""
    with named(where):
        return conversions.from_json(msgspec.to_builtins(entry))


def restore_target(entry: entries.GuaranteeEntry, where: str) -> Guarantee:
    """A guarantee that noise is made for, which is one that a fit takes."""
    target = restore_guarantee(entry, where)
    if not isinstance(target, NonPrivate):
        with named(where):
            read_target(target, 0.0)
    return target


def restore_loss(entry: entries.LossEntry, where: str) -> Loss:
    """The loss that `loss_entry` wrote."""
    given: dict[str, Any] = {"name": entry} if isinstance(entry, str) else {"name": "", **entry}
    with named(where):
        loss = find_loss(**given)
    if loss_entry(loss) != entry:
        raise ReleaseFileError(f"{where} takes the name of a loss, or of a family and its numbers")
    return loss


def restore_calibration(entry: entries.PerturbationEntry) -> Calibration:
    """The calibration that `calibration_entry` wrote.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or noise that does not give the target.
    """
    target = restore_target(entry.target, "calibration.target")
    if entry.lambda_ == 0 and not isinstance(target, NonPrivate):
        raise ReleaseFileError("calibration.lambda takes a number above 0 beside a guarantee")
    problem = Problem(
        n=entry.n,
        d=entry.d,
        loss=restore_loss(entry.loss, "calibration.loss"),
        radius=entry.radius,
        blocks=_read_blocks(entry.blocks, "calibration.blocks", entry.d),
        lambda_=entry.lambda_,
    )
    calibration = Calibration(
        problem=problem,
        target=target,
        placement=entry.placement,
        analysis=entry.analysis,
        noise=_read_law(entry.noise, "calibration.noise", entry.d, problem.blocks),
        shield=_read_law(entry.shield, "calibration.shield", entry.d, problem.blocks),
        tau=entry.tau,
        grid=entry.grid,
        lambda_origin=entry.lambda_origin,
        lambda_rules=tuple((rule.rule, rule.lambda_) for rule in entry.lambda_rules),
        alternatives=tuple(
            Alternative(other.noise, math.inf if other.ratio is None else other.ratio)
            for other in entry.alternatives
        ),
    )
    _require_consistent(calibration)
    return calibration


def _read_blocks(listed: list[entries.BlockEntry], where: str, d: int) -> tuple[Block, ...]:
    """Blocks of all d columns, or none."""
    blocks = tuple(Block(b.size, b.bound, "l2" if b.norm == "l2" else "l1") for b in listed)
    if len({block.bound for block in blocks if block.norm == "l2"}) > 1:
        raise ReleaseFileError(f"{where} takes one bound for all blocks under 'l2'")
    if blocks and sum(block.size for block in blocks) != d:
        raise ReleaseFileError(f"{where} takes sizes that add up to d = {d}")
    return blocks


def _read_law(
    entry: entries.LawEntry, where: str, dimension: int, known_blocks: tuple[Block, ...] = ()
) -> NoiseLaw:
    """A law on vectors of this dimension; if it has blocks, then those of the design."""
    if isinstance(entry, entries.BlockLaplaceEntry):
        blocks = _read_blocks(entry.blocks, f"{where}.blocks", dimension)
        if blocks != known_blocks or not blocks:
            raise ReleaseFileError(f"{where}.blocks differ from calibration.blocks")
        return BlockLaplace(blocks, entry.rate)
    require_same(entry.dimension, dimension, f"{where}.dimension")
    law = next(law for law, kind in _LAWS.items() if isinstance(entry, kind))
    found: NoiseLaw = law(**msgspec.structs.asdict(entry))
    return found


def restore_moments(entry: MomentsEntry | None, problem: Problem) -> Moments | None:
    """The moments that `moments_entry` wrote, for coefficients of this problem.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or noise that does not give the target.
    """
    if entry is None:
        return None
    if problem.d > MOST_COLUMNS:
        raise ReleaseFileError(f"inference takes null beside more than {MOST_COLUMNS} columns")
    if problem.lambda_ == 0:
        raise ReleaseFileError("inference takes null beside a fit without a penalty")
    calibration = MomentsCalibration(
        problem=problem,
        target=restore_target(entry.target, "inference.target"),
        balance=moments_balance(problem),
        noise=_read_law(entry.noise, "inference.noise", problem.d * (problem.d + 1)),
        grid=entry.grid,
    )
    require_same(entry.balance, calibration.balance, "inference.balance")
    _require_consistent_moments(calibration)
    curvature = _read_triangle(entry.curvature, "inference.curvature", calibration)
    scores = _read_triangle(entry.scores, "inference.scores", calibration)
    return Moments(np.concatenate([curvature, scores]), calibration)


def _read_triangle(
    rows: list[list[float]], where: str, calibration: MomentsCalibration
) -> FloatArray:
    """Half of the moments ``(d (d + 1) / 2,)``."""
    problem, grid = calibration.problem, calibration.grid
    if [len(row) for row in rows] != list(range(problem.d, 0, -1)):
        raise ReleaseFileError(f"{where} takes rows of {problem.d} numbers down to one")
    found = np.concatenate([np.array(row, dtype=np.float64) for row in rows])
    if grid and np.any(np.fmod(found, grid)):
        raise ReleaseFileError(f"{where} takes multiples of the grid")
    # a mean of rows is within n times what one of them can move it by
    largest = problem.n * moments_sensitivity(problem) + _FARTHEST * calibration.entry_sd
    if np.any(np.abs(found) > largest):
        raise ReleaseFileError(f"{where} takes numbers that rows and noise can make")
    return found


# -- what follows ----------------------------------------------------------------------------


def _require_consistent(calibration: Calibration) -> None:
    """Refuse a calibration whose noise does not give its target."""
    laws = (calibration.noise, calibration.shield)
    sizes = calibration.grid or calibration.tau
    if not _is_plain("calibration", calibration.target, laws, sizes):
        _require_power_of_two(calibration.grid, "calibration.grid")
        require_worth(lambda: achieved(calibration), calibration.target, "calibration")


def _require_consistent_moments(calibration: MomentsCalibration) -> None:
    """Refuse moments whose noise does not give their target."""
    laws, grid = (calibration.noise,), calibration.grid
    if not _is_plain("inference", calibration.target, laws, grid):
        _require_power_of_two(grid, "inference.grid")
        require_worth(lambda: achieved_moments(calibration), calibration.target, "inference")


def _is_plain(where: str, target: Guarantee, laws: tuple[NoiseLaw, ...], sizes: float) -> bool:
    """Whether a part has no guarantee; then it has no noise either."""
    plain = isinstance(target, NonPrivate)
    if plain and (sizes or not all(isinstance(law, NoNoise) for law in laws)):
        raise ReleaseFileError(f"{where}: a part without a guarantee has no noise or grid")
    return plain


def _require_power_of_two(grid: float, where: str) -> None:
    """Refuse a grid that is none of those that releases are rounded to."""
    fraction, _ = math.frexp(grid)
    if fraction != 0.5:
        raise ReleaseFileError(f"{where} takes a power of two")


def require_worth(achieved: Callable[[], Guarantee], target: Guarantee, where: str) -> None:
    """Refuse noise that does not give its target.

    Parameters
    ----------
    achieved
        Works out what the noise is worth from its numbers; raises if nothing is proven about it.
    target
        What the file claims.
    where
        The entry that holds both.
    """
    try:
        found = achieved()
        enough = implies(found, _relaxed(target))
    except (GuaranteeError, ArithmeticError, ValueError):
        raise ReleaseFileError(
            f"{where}: nothing is proven about this noise for this target"
        ) from None
    if not enough:
        raise ReleaseFileError(
            f"{where}: the noise gives {found}, which is less than the target {target}"
        )


def _relaxed(target: Guarantee) -> Guarantee:
    """The target, with room for rounding."""
    match target:
        case PureDP():
            return PureDP(target.epsilon * (1 + CLOSE), target.neighbours)
        case ZCDP():
            return ZCDP(target.rho * (1 + CLOSE), target.neighbours)
        case ApproxDP():
            delta = min(target.delta * (1 + CLOSE), 1.0)
            return ApproxDP(target.epsilon * (1 + CLOSE), delta, target.neighbours)
    return target
