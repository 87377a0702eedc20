"""Public guesses about data that nobody has seen, and how they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privatelr.errors import ArgumentError, require_number

SPREADS = (0.01, 1.0)
BALANCES = (0.001, 0.999)
C_INDICES = (0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Guesses:
    """What a plan assumes where nothing is public.

    Attributes
    ----------
    balance : float
        Share of the positive class.
    spread : float
        Standard deviation of a bounded column, over half the width of its bounds.
    c_index : float
        Of the true probabilities; 0.5 is nothing to find.
    """

    balance: float = 0.5
    spread: float = 0.4
    c_index: float = 0.75


def read_guesses(balance: Any, spread: Any, c_index: Any) -> Guesses:
    """Check what is guessed; raises `ArgumentError`."""
    shares = "the share of the positive class, a number from {} to {}"
    spreads = "a standard deviation over half the width of the bounds, a number from {} to {}"
    indices = "a number from {} (nothing to find) to {}"
    return Guesses(
        balance=_read("balance", balance, BALANCES, shares),
        spread=_read("spread", spread, SPREADS, spreads),
        c_index=_read("c_index", c_index, C_INDICES, indices),
    )


def _read(name: str, value: Any, limits: tuple[float, float], takes: str) -> float:
    low, high = limits
    told = takes.format(f"{low:g}", f"{high:g}")
    return require_number(ArgumentError, name, value, told, at_least=low, at_most=high)
