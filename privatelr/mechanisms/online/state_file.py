"""The state of a play as a file that can be resumed once. It is private: nothing covers it."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.errors import ArgumentError, GuaranteeError, show
from privatelr.mechanisms.online.calibration import (
    NEIGHBOURS,
    OnlineCalibration,
    OnlineProblem,
    read_problem,
)
from privatelr.privacy import conversions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privatelr.types import IntArray

_FORMAT = "privatelr play, PRIVATE: holds sums of losses; not to be shared, copied or published"
_VERSION = 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """Everything that a play goes on from.

    Attributes
    ----------
    calibration : OnlineCalibration
    over : int
        Rounds that are over.
    choice : int or None
        The index of the round that is under way, if it was asked for.
    sums : ndarray of int, shape (n_experts,)
        Of the losses of all rounds that are over, in steps. Private.
    seed : int or None
    """

    calibration: OnlineCalibration
    over: int
    choice: int | None
    sums: IntArray
    seed: int | None


def write(path: str | os.PathLike[str], state: State) -> None:
    """Put the state into a file that is new, complete, and readable by its owner alone."""
    name = _require_path(path)
    data = json.dumps(_document(state)).encode()
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ArgumentError(
            f"path={show(name)}: there is such a file, and no state is written over another one."
        ) from None
    except OSError as error:
        raise ArgumentError(f"path={show(name)}: {_reason(error)}.") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            os.unlink(name)
        raise ArgumentError(f"path={show(name)}: {_reason(error)}.") from None


@contextmanager
def taken(path: str | os.PathLike[str]) -> Iterator[State]:
    """The state of a file, which is gone after the block; if the block fails it is back.

    Of all who open one file, one succeeds in renaming it, and the others find none.
    """
    name = Path(_require_path(path))
    claimed = name.with_name(f".{secrets.token_hex(8)}.taken")
    try:
        os.rename(name, claimed)
    except FileNotFoundError:
        raise ArgumentError(
            f"path={show(str(name))}: there is no such file; a state is taken off the disk when "
            "it is resumed."
        ) from None
    except OSError as error:
        raise ArgumentError(f"path={show(str(name))}: {_reason(error)}.") from None
    try:
        yield _restore(claimed.read_bytes())
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        os.rename(claimed, name)
        raise ArgumentError(f"path={show(str(name))}: the file holds no state of a play.") from None
    except BaseException:
        os.rename(claimed, name)
        raise
    claimed.unlink()


def _document(state: State) -> dict[str, Any]:
    calibration = state.calibration
    problem = asdict(calibration.problem) | {"neighbours": calibration.problem.neighbours.name}
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "problem": problem,
        "target": conversions.to_json(calibration.target),
        "eta": calibration.eta,
        "lambda_origin": calibration.lambda_origin,
        "over": state.over,
        "choice": state.choice,
        "seed": state.seed,
        "sums": state.sums.tolist(),
    }


def _restore(data: bytes) -> State:
    given = json.loads(data)
    if given["format"] != _FORMAT or given["version"] != _VERSION:
        raise ValueError
    stated = given["problem"]
    names = {neighbours.name: name for name, neighbours in NEIGHBOURS.items()}
    problem = read_problem(
        stated["n_experts"],
        stated["horizon"],
        (stated["low"], stated["high"]),
        names[stated["neighbours"]],
    )
    target = conversions.from_json(given["target"])
    calibration = OnlineCalibration(problem, target, given["eta"], str(given["lambda_origin"]))
    sums = np.array(given["sums"], dtype=np.int64)
    over, choice, seed = given["over"], given["choice"], given["seed"]
    _require_consistent(problem, calibration, over, choice, sums)
    if seed is not None and (type(seed) is not int or seed < 0):
        raise ValueError
    return State(calibration, over, choice, sums, seed)


def _require_consistent(
    problem: OnlineProblem,
    calibration: OnlineCalibration,
    over: Any,
    choice: Any,
    sums: IntArray,
) -> None:
    """Refuse what no play can have written."""
    right = (
        type(over) is int
        and 0 <= over <= problem.horizon
        and sums.shape == (problem.n_experts,)
        and bool((sums >= 0).all() and (sums <= over * problem.steps).all())
        and (choice is None or (type(choice) is int and 0 <= choice < problem.n_experts))
        and calibration.target.neighbours is problem.neighbours
        and calibration.mechanism.epsilon > 0
    )
    if not right:
        raise GuaranteeError("state: inconsistent.")


def _require_path(path: Any) -> str:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    return os.fsdecode(path)


def _reason(error: OSError) -> str:
    return f"the file cannot be opened or written ({(error.strerror or 'unknown').lower()})"
