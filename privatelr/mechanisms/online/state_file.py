"""The state of a play as a file that can be resumed once. It is private: nothing covers it."""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privatelr.errors import ArgumentError, GuaranteeError, show
from privatelr.mechanisms.online.online_calibration import (
    OnlineCalibration,
    OnlineProblem,
    calibrate_online,
    read_problem,
    read_promise,
)
from privatelr.privacy import NEIGHBOURS, Guarantee, NonPrivate, from_json, to_json
from privatelr.privacy.accounting import Entry, entry_from_json, entry_to_json
from privatelr.types import IntArray

_FORMAT = "privatelr play, PRIVATE: holds sums of losses; not to be shared, copied or published"
_VERSION = 1
_ROUNDING = 1e-9
"""Relative difference that two machines may have in one calibration."""
_READ = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)


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
    entry : Entry or None
        What a ledger was charged.
    """

    calibration: OnlineCalibration
    over: int
    choice: int | None
    sums: IntArray
    seed: int | None
    entry: Entry | None = None


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


def take(path: str | os.PathLike[str]) -> State:
    """The state of a file, which is gone from the disk then; anything else is left where it is.

    It is read first, then claimed by a new name. Of all who read one file, one succeeds in
    that, and the others find none, or another one, which they put back.
    """
    name = Path(_require_path(path))
    data = _read(name)
    state = _restore_or_refuse(name, data)
    claimed = name.with_name(f".{secrets.token_hex(8)}.taken")
    try:
        os.rename(name, claimed)
    except OSError as error:
        raise _unreadable(name, error) from None
    try:
        if _read(claimed) != data:
            raise _foreign(name)
        claimed.unlink()
    except (ArgumentError, OSError):
        where = _put_back(claimed, name)
        raise ArgumentError(
            f"path={show(str(name))}: the file changed while it was read; {where}."
        ) from None
    return state


def _read(name: Path) -> bytes:
    """The bytes of a regular file of one's own; nothing else is opened."""
    try:
        if not _is_own_file(os.lstat(name)):
            raise _foreign(name)
        # a file that took its place meanwhile neither blocks nor is followed
        descriptor = os.open(name, _READ)
        with os.fdopen(descriptor, "rb") as file:
            if not _is_own_file(os.fstat(descriptor)):
                raise _foreign(name)
            return file.read()
    except OSError as error:
        raise _unreadable(name, error) from None


def _is_own_file(found: os.stat_result) -> bool:
    own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return own and stat.S_ISREG(found.st_mode)


def _put_back(claimed: Path, name: Path) -> str:
    """Give a file its name again, but not over another one; says where it is."""
    try:
        os.link(claimed, name)  # unlike a rename, it does not replace what is there
        claimed.unlink()
    except OSError:
        return f"it is kept as {show(str(claimed))}"
    return "it is left"


def _foreign(name: Path) -> ArgumentError:
    return ArgumentError(f"path={show(str(name))}: takes a regular file that is your own.")


def _unreadable(name: Path, error: OSError) -> ArgumentError:
    if isinstance(error, FileNotFoundError):
        return ArgumentError(
            f"path={show(str(name))}: there is no such file; a state is taken off the disk when "
            "it is resumed."
        )
    return ArgumentError(f"path={show(str(name))}: {_reason(error)}.")


def _restore_or_refuse(name: Path, data: bytes) -> State:
    try:
        return _restore(data)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        raise ArgumentError(f"path={show(str(name))}: the file holds no state of a play.") from None


def _document(state: State) -> dict[str, Any]:
    calibration = state.calibration
    problem = asdict(calibration.problem) | {"neighbours": calibration.problem.neighbours.name}
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "problem": problem,
        "target": to_json(calibration.target),
        "eta": calibration.eta,
        "over": state.over,
        "choice": state.choice,
        "seed": state.seed,
        "sums": state.sums.tolist(),
        "entry": None if state.entry is None else entry_to_json(state.entry),
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
    calibration = _calibrated_again(problem, from_json(given["target"]), given["eta"])
    over, choice, seed = given["over"], given["choice"], given["seed"]
    if not (type(over) is int and 0 <= over <= problem.horizon):
        raise GuaranteeError("state: rounds.")
    if choice is not None and not (
        type(choice) is int and 0 <= choice < problem.n_experts and over < problem.horizon
    ):
        raise GuaranteeError("state: choice.")
    if seed is not None and (type(seed) is not int or seed < 0):
        raise GuaranteeError("state: seed.")
    sums = _read_sums(given["sums"], problem, over)
    entry = None if given["entry"] is None else entry_from_json(given["entry"])
    if entry is not None and (seed is not None or not _is_of(entry, calibration, given["eta"])):
        raise GuaranteeError("state: charge.")
    return State(calibration, over, choice, sums, seed, entry)


def _calibrated_again(problem: OnlineProblem, target: Guarantee, eta: Any) -> OnlineCalibration:
    """What the target leads to, if it is what the file states; the smaller range of the two."""
    is_text = not isinstance(target, NonPrivate) or type(target.reason) is str
    if not is_text or read_promise(target, 0.0, problem) != target:
        raise GuaranteeError("state: target.")
    found = calibrate_online(problem, target)
    if type(eta) is not float or not math.isclose(eta, found.eta, rel_tol=_ROUNDING):
        raise GuaranteeError("state: calibration.")
    return replace(found, eta=min(eta, found.eta))


def _read_sums(given: Any, problem: OnlineProblem, over: int) -> IntArray:
    """Whole numbers that so many rounds can add up to."""
    most = over * problem.steps
    if not isinstance(given, list) or len(given) != problem.n_experts:
        raise GuaranteeError("state: sums.")
    if not all(type(value) is int and 0 <= value <= most for value in given):
        raise GuaranteeError("state: sums.")
    return np.array(given, dtype=np.int64)


def _is_of(entry: Entry, calibration: OnlineCalibration, eta: float) -> bool:
    """Whether a charge is the one for this play."""
    charged = replace(calibration, eta=eta)
    right = (calibration.target, charged.events, 1)
    return (entry.guarantee, entry.events, entry.times) == right


def _require_path(path: Any) -> str:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    return os.fsdecode(path)


def _reason(error: OSError) -> str:
    return f"the file cannot be opened or written ({(error.strerror or 'unknown').lower()})"
