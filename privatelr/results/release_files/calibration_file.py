"""Guarantees, noise laws and calibrations as plain values, and back again.

Nothing is taken on trust: the noise has to be enough for the guarantee that the file claims,
by the same formulas that chose it.

What follows from them is recomputed by whoever reads them: the noise has to be enough for the
guarantee that the file claims, by the same formulas that chose it.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from privatelr.errors import ArgumentError, GuaranteeError, ReleaseFileError
from privatelr.mechanisms import Problem, read_target
from privatelr.mechanisms.calibration import Alternative, Calibration
from privatelr.mechanisms.verify import achieved
from privatelr.numerics import LOSSES, find_loss
from privatelr.privacy import (
    REPLACE_ONE,
    ZCDP,
    ApproxDP,
    Guarantee,
    NonPrivate,
    PureDP,
    conversions,
    implies,
)
from privatelr.privacy.noise import BlockLaplace, GaussianNoise, NoiseLaw, NoNoise, SphericalLaplace
from privatelr.results.release_files.json_values import (
    CLOSE,
    choice,
    entries,
    listing,
    number,
    text,
    whole,
)
from privatelr.types import Block

if TYPE_CHECKING:
    from collections.abc import Callable

    from privatelr.numerics import Loss


_LAWS: dict[str, type[Any]] = {
    "spherical_laplace": SphericalLaplace,
    "block_laplace": BlockLaplace,
    "gaussian": GaussianNoise,
    "none": NoNoise,
}
"""Kinds of noise in a file; a new law is listed here and in the schema."""
_NUMBERS = {"pure": ("epsilon",), "zcdp": ("rho",), "approximate": ("epsilon", "delta")}
_SMALLEST, _LARGEST = 1e-100, 1e100
"""Limits to sizes of noise and rows, for which no formula over- or underflows."""
_LONGEST_PHRASE = 200


# -- writing ---------------------------------------------------------------------------------


def law_entry(law: NoiseLaw) -> dict[str, Any]:
    """A law as plain values: its name and its numbers."""
    kind = next(name for name, cls in _LAWS.items() if type(law) is cls)
    if isinstance(law, BlockLaplace):
        return {"law": kind, "blocks": blocks_entry(law.blocks), "rate": law.rate}
    return {"law": kind, **asdict(cast("Any", law))}


def blocks_entry(blocks: tuple[Block, ...]) -> list[dict[str, Any]]:
    """Blocks of columns as plain values; the usual norm is not named."""
    return [
        {"size": block.size, "bound": block.bound}
        | ({} if block.norm == "l1" else {"norm": block.norm})
        for block in blocks
    ]


# -- reading ---------------------------------------------------------------------------------


def restore_guarantee(value: Any, where: str) -> Guarantee:
    """A guarantee, with exactly its own entries."""
    kind = choice(
        value.get("kind") if isinstance(value, dict) else None,
        f"{where}.kind",
        conversions.KINDS,
    )
    names = _NUMBERS.get(kind, ("reason",))
    given = entries(value, where, ("kind", *names, "neighbours"))
    choice(given["neighbours"], f"{where}.neighbours", (REPLACE_ONE.name,))
    if kind == "none":
        phrase(given["reason"], f"{where}.reason")
    else:
        for name in names:
            number(given[name], f"{where}.{name}", at_least=0.0)
    try:
        return conversions.from_json(given)
    except GuaranteeError as error:
        raise ReleaseFileError(f"{where}: {str(error).removesuffix('.')}") from None


def restore_target(value: Any, where: str) -> Guarantee:
    """A guarantee that noise is made for, which is one that a fit takes."""
    target = restore_guarantee(value, where)
    if isinstance(target, NonPrivate):
        return target
    try:
        read_target(target, 0.0)
    except GuaranteeError as error:
        raise ReleaseFileError(f"{where}: {str(error).removesuffix('.')}") from None
    return target


def phrase(value: Any, where: str) -> str:
    """A text that is printed as it is, so it stays within its line."""
    found = text(value, where, _LONGEST_PHRASE)
    if not found.isprintable():
        raise ReleaseFileError(f"{where} takes printable characters on one line")
    return found


def size(value: Any, where: str) -> float:
    """A number above zero for which no formula over- or underflows."""
    found = number(value, where, above=0.0)
    if not _SMALLEST <= found <= _LARGEST:
        raise ReleaseFileError(f"{where} takes a number from {_SMALLEST:g} to {_LARGEST:g}")
    return found


def zero_or_size(value: Any, where: str) -> float:
    """A size, or zero."""
    return 0.0 if number(value, where, at_least=0.0) == 0 else size(value, where)


def read_blocks(value: Any, where: str, d: int) -> tuple[Block, ...]:
    """Blocks of all d columns, or none."""
    blocks = []
    for index, item in enumerate(listing(value, where)):
        named = isinstance(item, dict) and "norm" in item
        names = ("size", "bound", "norm") if named else ("size", "bound")
        given = entries(item, f"{where}[{index}]", names)
        width = whole(given["size"], f"{where}[{index}].size", 1, d)
        bound = size(given["bound"], f"{where}[{index}].bound")
        if named:
            choice(given["norm"], f"{where}[{index}].norm", ("l2",))
        blocks.append(Block(width, bound, "l2" if named else "l1"))
    if len({block.bound for block in blocks if block.norm == "l2"}) > 1:
        raise ReleaseFileError(f"{where} takes one bound for all blocks under 'l2'")
    if blocks and sum(block.size for block in blocks) != d:
        raise ReleaseFileError(f"{where} takes sizes that add up to d = {d}")
    return tuple(blocks)


def read_law(
    value: Any, where: str, dimension: int, known_blocks: tuple[Block, ...] = ()
) -> NoiseLaw:
    """A law on vectors of this dimension; if it has blocks, then those of the design."""
    kind = value.get("law") if isinstance(value, dict) else None
    match choice(kind, f"{where}.law", _LAWS):
        case "block_laplace":
            given = entries(value, where, ("law", "blocks", "rate"))
            blocks = read_blocks(given["blocks"], f"{where}.blocks", dimension)
            if blocks != known_blocks or not blocks:
                raise ReleaseFileError(f"{where}.blocks differ from calibration.blocks")
            return BlockLaplace(blocks, size(given["rate"], f"{where}.rate"))
        case "none":
            entries(value, where, ("law", "dimension"))
            return NoNoise(_read_dimension(value, where, dimension))
        case "gaussian":
            entries(value, where, ("law", "dimension", "sd"))
            sd = size(value["sd"], f"{where}.sd")
            return GaussianNoise(_read_dimension(value, where, dimension), sd)
    entries(value, where, ("law", "dimension", "rate"))
    rate = size(value["rate"], f"{where}.rate")
    return SphericalLaplace(_read_dimension(value, where, dimension), rate)


def _read_dimension(value: dict[str, Any], where: str, dimension: int) -> int:
    return whole(value["dimension"], f"{where}.dimension", dimension, dimension)


# -- what follows ----------------------------------------------------------------------------


def require_power_of_two(grid: float, where: str) -> None:
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


_ENTRIES = (
    *("placement", "analysis", "target", "n", "d", "loss", "radius", "blocks", "lambda"),
    *("lambda_origin", "lambda_rules", "noise", "shield", "tau", "grid", "alternatives"),
)
_MOST_RECORDS = 10**15
_MOST_COLUMNS = 10**6


# -- writing ---------------------------------------------------------------------------------


def calibration_entry(calibration: Calibration) -> dict[str, Any]:
    """A calibration as plain values, all of them public."""
    problem = calibration.problem
    return {
        "placement": calibration.placement,
        "analysis": calibration.analysis,
        "target": conversions.to_json(calibration.target),
        "n": problem.n,
        "d": problem.d,
        "loss": loss_entry(problem.loss),
        "radius": problem.radius,
        "blocks": blocks_entry(problem.blocks),
        "lambda": problem.lambda_,
        "lambda_origin": calibration.lambda_origin,
        "lambda_rules": [{"rule": r, "lambda": value} for r, value in calibration.lambda_rules],
        "noise": law_entry(calibration.noise),
        "shield": law_entry(calibration.shield),
        "tau": calibration.tau,
        "grid": calibration.grid,
        "alternatives": [
            {"noise": other.title, "ratio": other.ratio if math.isfinite(other.ratio) else None}
            for other in calibration.alternatives
        ],
    }


def loss_entry(loss: Loss) -> Any:
    """The name of a loss, beside the numbers that pick it from its family if there are any."""
    return {"name": loss.name, **loss.parameters} if loss.parameters else loss.name


# -- reading ---------------------------------------------------------------------------------


def restore_calibration(value: Any) -> Calibration:
    """The calibration that `calibration_entry` wrote.

    Raises
    ------
    ReleaseFileError
        Part of a sentence: an entry that is wrong, or noise that does not give the target.
    """
    where = "calibration"
    given = entries(value, where, _ENTRIES)
    target = restore_target(given["target"], f"{where}.target")
    plain = isinstance(target, NonPrivate)
    problem = Problem(
        n=whole(given["n"], f"{where}.n", 1, _MOST_RECORDS),
        d=(d := whole(given["d"], f"{where}.d", 1, _MOST_COLUMNS)),
        loss=read_loss(given["loss"], f"{where}.loss"),
        radius=size(given["radius"], f"{where}.radius"),
        blocks=read_blocks(given["blocks"], f"{where}.blocks", d),
        lambda_=_read_lambda(given["lambda"], f"{where}.lambda", plain),
    )
    calibration = Calibration(
        problem=problem,
        target=target,
        placement=cast(
            "Any", choice(given["placement"], f"{where}.placement", ("objective", "output"))
        ),
        analysis=phrase(given["analysis"], f"{where}.analysis"),
        noise=read_law(given["noise"], f"{where}.noise", d, problem.blocks),
        shield=read_law(given["shield"], f"{where}.shield", d, problem.blocks),
        tau=zero_or_size(given["tau"], f"{where}.tau"),
        grid=zero_or_size(given["grid"], f"{where}.grid"),
        lambda_origin=phrase(given["lambda_origin"], f"{where}.lambda_origin"),
        lambda_rules=tuple(_read_rules(given["lambda_rules"], f"{where}.lambda_rules")),
        alternatives=tuple(_read_others(given["alternatives"], f"{where}.alternatives")),
    )
    _require_consistent(calibration)
    return calibration


def _read_lambda(value: Any, where: str, plain: bool) -> float:
    """A plain fit may have no penalty; a private one may not."""
    return zero_or_size(value, where) if plain else size(value, where)


def read_loss(value: Any, where: str) -> Loss:
    """The loss that `loss_entry` wrote."""
    families = [name for name, loss in LOSSES.items() if loss.parameters]
    if not isinstance(value, dict):
        if value in families:
            raise ReleaseFileError(f"{where} takes an object with the name {value!r} and numbers")
        plain = [name for name, loss in LOSSES.items() if not loss.parameters]
        return LOSSES[choice(value, where, plain)]
    name = choice(value.get("name"), f"{where}.name", families)
    given = entries(value, where, ("name", *LOSSES[name].parameters))
    try:
        return find_loss(**given)
    except ArgumentError as error:
        raise ReleaseFileError(f"{where}: {str(error).removesuffix('.')}") from None


def _read_rules(value: Any, where: str) -> list[tuple[str, float]]:
    rules = []
    for index, item in enumerate(listing(value, where)):
        given = entries(item, f"{where}[{index}]", ("rule", "lambda"))
        name = phrase(given["rule"], f"{where}[{index}].rule")
        rules.append((name, number(given["lambda"], f"{where}[{index}].lambda", at_least=0.0)))
    return rules


def _read_others(value: Any, where: str) -> list[Alternative]:
    others = []
    for index, item in enumerate(listing(value, where)):
        given = entries(item, f"{where}[{index}]", ("noise", "ratio"))
        ratio = given["ratio"]
        others.append(
            Alternative(
                phrase(given["noise"], f"{where}[{index}].noise"),
                math.inf
                if ratio is None
                else number(ratio, f"{where}[{index}].ratio", at_least=0.0),
            )
        )
    return others


def _require_consistent(calibration: Calibration) -> None:
    """Refuse a calibration whose noise does not give its target."""
    if isinstance(calibration.target, NonPrivate):
        _require_plain(calibration)
        return
    require_power_of_two(calibration.grid, "calibration.grid")
    require_worth(lambda: achieved(calibration), calibration.target, "calibration")


def _require_plain(calibration: Calibration) -> None:
    laws = (calibration.noise, calibration.shield)
    if calibration.tau or calibration.grid or not all(isinstance(law, NoNoise) for law in laws):
        raise ReleaseFileError("calibration: a fit without a guarantee has no noise, tau or grid")
