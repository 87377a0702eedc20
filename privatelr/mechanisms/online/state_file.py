"""The state of a play as a file that can be resumed once; the file is private."""

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

from privatelr.errors import ArgumentError, show
from privatelr.mechanisms.online.online_calibration import (
    RELATIONS,
    OnlineCalibration,
    calibrate_online,
    read_problem,
    read_promise,
)
from privatelr.privacy import NonPrivate, from_json, to_json
from privatelr.privacy.accounting import Entry, entry_from_json, entry_to_json
from privatelr.types import IntArray

_FORMAT = "privatelr play, PRIVATE: holds sums of losses; not to be shared, copied or published"
_VERSION = 1
_ROUNDING = 1e-9
"""Largest relative difference that is accepted between the same numbers on two machines."""
_READ = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
"""Flags to open a file with: a link is not followed, a pipe does not block, bytes stay bytes."""


@dataclass(slots=True, eq=False, repr=False)
class State:
    """All that a play needs to continue; it changes with every round.

    Attributes
    ----------
    calibration : OnlineCalibration
        The numbers of the choice of a round.
    sums : ndarray of int, shape (n_experts,)
        Sums of the losses of all rounds that are over, in steps. Private.
    over : int
        The number of rounds that are over.
    choice : int or None
        The index of the present round; None until it is asked for.
    seed : int or None
        The seed of the choices; None for choices that cannot be replayed.
    entry : Entry or None
        The entry that a ledger was charged with.
    """

    calibration: OnlineCalibration
    sums: IntArray
    over: int = 0
    choice: int | None = None
    seed: int | None = None
    entry: Entry | None = None


def opening_state(calibration: OnlineCalibration, seed: int | None = None) -> State:
    """Return the state before the first round."""
    sums = np.zeros(calibration.problem.n_experts, dtype=np.int64)
    return State(calibration, sums, seed=seed)


def write(path: str | os.PathLike[str], state: State) -> None:
    """Write the state to a new file that only its owner may read; a failed write leaves no file."""
    name = _require_path(path)
    data = json.dumps(_document(state)).encode()
    made = False
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        made = True
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        there = "there is such a file, and no state is written over another one"
        raise _refusal(name, there) from None
    except OSError as error:
        if made:
            with suppress(OSError):
                os.unlink(name)
        raise _refusal(name, _reason(error)) from None


def take(path: str | os.PathLike[str]) -> State:
    """Read the state of a file and remove the file; leave a file of any other kind as it is.

    The file is read, then claimed by renaming it. If several processes read one file, only one of
    them can rename it. The others find no file, or another one that took its place, which they
    put back.
    """
    name = Path(_require_path(path))
    data = _read(name)
    try:
        state = _restore(data)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        raise _refusal(name, "the file holds no state of a play") from None
    claimed = name.with_name(f".{secrets.token_hex(8)}.taken")
    try:
        os.rename(name, claimed)
    except OSError as error:
        raise _unreadable(name, error) from None
    try:
        if _read(claimed) != data:
            raise OSError
        claimed.unlink()
    except (ArgumentError, OSError):
        where = _put_back(claimed, name)
        raise _refusal(name, f"the file changed while it was read; {where}") from None
    return state


def _read(name: Path) -> bytes:
    """Return the bytes of a regular file that the user owns; refuse to open any other."""
    try:
        _require_own(name, os.lstat(name))
        # another file may have taken its place meanwhile: a pipe must not block, and a link must
        # not be followed
        descriptor = os.open(name, _READ)
        with os.fdopen(descriptor, "rb") as file:
            _require_own(name, os.fstat(descriptor))
            return file.read()
    except OSError as error:
        raise _unreadable(name, error) from None


def _require_own(name: Path, found: os.stat_result) -> None:
    own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    if not (own and stat.S_ISREG(found.st_mode)):
        raise _refusal(name, "takes a regular file that is your own")


def _put_back(claimed: Path, name: Path) -> str:
    """Give a claimed file its old name again unless that is taken; return where it is now."""
    try:
        os.link(claimed, name)  # unlike a rename, it does not replace what is there
        claimed.unlink()
    except OSError:
        return f"it is kept as {show(str(claimed))}"
    return "it is left"


def _require_path(path: Any) -> str:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):
        raise ArgumentError(f"path={show(path)}: path takes the name of a file.")
    return os.fsdecode(path)


def _refusal(name: str | Path, why: str) -> ArgumentError:
    return ArgumentError(f"path={show(str(name))}: {why}.")


def _reason(error: OSError) -> str:
    return f"the file cannot be opened or written ({(error.strerror or 'unknown').lower()})"


def _unreadable(name: Path, error: OSError) -> ArgumentError:
    gone = "there is no such file; a state is taken off the disk when it is resumed"
    return _refusal(name, gone if isinstance(error, FileNotFoundError) else _reason(error))


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
    """Read the state that a file holds; any error means that it does not hold one.

    The calibration is computed again. Of its bounded range and the one in the file, which differ
    by rounding at most, the smaller is used.
    """
    given = json.loads(data)
    _require((given["format"], given["version"]) == (_FORMAT, _VERSION))
    stated, eta, over, sums = (given[name] for name in ("problem", "eta", "over", "sums"))
    names = {neighbours.name: name for name, neighbours in RELATIONS.items()}
    ends = stated["low"], stated["high"]
    problem = read_problem(
        stated["n_experts"], stated["horizon"], ends, names[stated["neighbours"]]
    )
    target = from_json(given["target"])
    _require(not isinstance(target, NonPrivate) or type(target.reason) is str)
    _require(read_promise(target, 0.0, problem) == target)
    found = calibrate_online(problem, target)
    _require(type(eta) is float and math.isclose(eta, found.eta, rel_tol=_ROUNDING))
    _require(type(over) is int and 0 <= over <= problem.horizon)
    if (choice := given["choice"]) is not None:
        _require(type(choice) is int and 0 <= choice < problem.n_experts)
        _require(over < problem.horizon)
    if (seed := given["seed"]) is not None:
        _require(type(seed) is int and seed >= 0)
    most = over * problem.steps
    _require(isinstance(sums, list) and len(sums) == problem.n_experts)
    _require(all(type(value) is int and 0 <= value <= most for value in sums))
    entry = None if given["entry"] is None else entry_from_json(given["entry"])
    if entry is not None:  # the charge has to be the one that was made for this play
        events = replace(found, eta=eta).events
        _require((entry.guarantee, entry.events, entry.times) == (target, events, 1))
        _require(seed is None)
    calibration = replace(found, eta=min(eta, found.eta))
    return State(calibration, np.array(sums, dtype=np.int64), over, choice, seed, entry)


def _require(right: bool) -> None:
    if not right:
        raise ValueError
