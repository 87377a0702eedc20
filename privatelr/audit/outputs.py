"""What a mechanism put out, trial by trial, as an attacker would write it down."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privatelr.types import FloatArray, IntArray

Mechanism = Callable[[Any, np.random.Generator], Any]
"""``mechanism(data, rng)`` returns a number or a vector, or raises: both are outputs."""

Observation = tuple[str, "FloatArray | None"]
"""A symbol, and the vector that came with it."""

VALUE = "value"
_ATOM = 0.01
"""A vector with this share of the outputs is a symbol of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """Outputs of repeated runs.

    Attributes
    ----------
    codes : ndarray of shape (trials,)
        Positions in `names`.
    names : tuple of str
        Symbols: ``"value"``, or in words what came in its place or with it, such as an
        exception, a warning, or what is not a number.
    values : ndarray of shape (trials, k)
        The vectors, zeros where there was none.
    """

    codes: IntArray
    names: tuple[str, ...]
    values: FloatArray

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: slice) -> Outputs:
        """Some of the trials."""
        return Outputs(self.codes[index], self.names, self.values[index])

    def by_symbol(self) -> dict[str, IntArray]:
        """Trials of each symbol that occurs."""
        found = {name: np.flatnonzero(self.codes == at) for at, name in enumerate(self.names)}
        return {name: trials for name, trials in found.items() if trials.size}


def observe(
    mechanism: Mechanism, data: Any, trials: int, rng: np.random.Generator
) -> list[Observation]:
    """Run the mechanism again and again; nothing that it does stops the audit."""
    return [_observe_once(mechanism, data, rng) for _ in range(trials)]


def _observe_once(mechanism: Mechanism, data: Any, rng: np.random.Generator) -> Observation:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            symbol, vector = _read(mechanism(data, rng))
        except Exception as refusal:  # whatever it is, whoever calls the mechanism sees it
            symbol, vector = f"refused: {type(refusal).__name__}: {refusal}", None
    warned = {f"warned: {type(w.message).__name__}: {w.message}" for w in caught}
    return "; ".join([symbol, *sorted(warned)]), vector


def _read(found: Any) -> Observation:
    try:
        vector = np.atleast_1d(np.asarray(found, dtype=np.float64)).reshape(-1)
    except (TypeError, ValueError):
        return f"said: {found!r}", None
    finite = np.isfinite(vector)
    if finite.all():
        return VALUE, vector
    entries = ", ".join(f"{at}: {vector[at]}" for at in np.flatnonzero(~finite))
    return f"{VALUE} with {{{entries}}}", np.where(finite, vector, 0.0)


def gather(first: Sequence[Observation], second: Sequence[Observation]) -> tuple[Outputs, Outputs]:
    """Two lists of observations as outputs of one width, that of most vectors."""
    widths = Counter(len(vector) for _, vector in [*first, *second] if vector is not None)
    width = widths.most_common(1)[0][0] if widths else 0
    return _collect(first, width), _collect(second, width)


def _collect(observed: Sequence[Observation], width: int) -> Outputs:
    names: dict[str, int] = {}
    codes = np.zeros(len(observed), dtype=np.intp)
    values = np.zeros((len(observed), width))
    for at, (symbol, vector) in enumerate(observed):
        if vector is not None and len(vector) == width:
            values[at] = vector
        elif vector is not None:
            symbol = f"{symbol} of {len(vector)} numbers"
        codes[at] = names.setdefault(symbol, len(names))
    return Outputs(codes, tuple(names), values)


def outputs_of(vectors: FloatArray) -> Outputs:
    """Outputs that are already there: numbers ``(trials,)`` or vectors ``(trials, k)``."""
    values = np.asarray(vectors, dtype=np.float64)
    values = values.reshape(len(values), -1)
    if not np.isfinite(values).all():
        return _collect([_read(value) for value in values], values.shape[1])
    return Outputs(np.zeros(len(values), dtype=np.intp), (VALUE,), values)


def find_atoms(first: Outputs, second: Outputs) -> FloatArray:
    """Vectors ``(m, k)`` that occur again and again on either side."""
    found = [np.zeros((0, first.values.shape[1]))]
    for side in (first, second):
        enough = max(_ATOM * len(side), 5)
        if all(_repeats(column, enough) for column in side.values.T):
            vectors, counts = np.unique(side.values, axis=0, return_counts=True)
            found.append(vectors[counts >= enough])
    return np.asarray(np.unique(np.concatenate(found), axis=0))


def _repeats(column: FloatArray, enough: float) -> bool:
    return bool(np.unique(column, return_counts=True)[1].max() >= enough)


def name_atoms(outputs: Outputs, atoms: FloatArray) -> Outputs:
    """Give each atom a symbol of its own."""
    codes, names = outputs.codes.copy(), list(outputs.names)
    for number, atom in enumerate(atoms):
        here = (outputs.values == atom).all(axis=1)
        for code, name in enumerate(outputs.names):
            codes[here & (outputs.codes == code)] = len(names)
            names.append(f"{name} at atom {number}")
    return Outputs(codes, tuple(names), outputs.values)
