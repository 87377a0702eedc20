"""A calibration as plain values, and back again, with its guarantee recomputed.

Nothing is taken on trust: the noise has to be enough for the guarantee that the file claims,
by the same formulas that chose it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from privatelr.errors import ArgumentError, ReleaseFileError
from privatelr.mechanisms.calibration.record import Alternative, Calibration
from privatelr.mechanisms.problem import Problem
from privatelr.mechanisms.verification import achieved
from privatelr.numerics.losses import LOSSES, find_loss
from privatelr.privacy import conversions
from privatelr.privacy.guarantees import NonPrivate
from privatelr.privacy.noise import NoNoise
from privatelr.results.json_values import choice, entries, listing, number, whole
from privatelr.results.noise_file import (
    blocks_entry,
    law_entry,
    phrase,
    read_blocks,
    read_law,
    require_power_of_two,
    require_worth,
    restore_target,
    size,
    zero_or_size,
)

if TYPE_CHECKING:
    from privatelr.numerics.losses import Loss

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
