"""How a bug is planted in the package while a ``with`` block runs, and the audits that look."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar
from unittest import mock

import numpy as np

from privatelr.audit import checks
from privatelr.audit.accounts import audit_ledger
from privatelr.audit.audit_table import Row
from privatelr.audit.density.persons_and_classes import audit_changes
from privatelr.audit.designs import audit_rows
from privatelr.audit.enumerated_answers import audit_answers, audit_declarations
from privatelr.audit.enumerated_choices import audit_plays, audit_simplex
from privatelr.audit.neighbouring_tables import (
    audit_formulas,
    audit_long_records,
    audit_tables,
)
from privatelr.audit.recomputed import audit_noise
from privatelr.audit.run_audit import SCALE_BESIDE, audit_one
from privatelr.audit.sampling.draws_and_releases import audit_draws, audit_releases
from privatelr.mechanisms import ALL_FOR_COEFFICIENTS, Request, Spend
from privatelr.numerics import LOSSES
from privatelr.privacy import PureDP
from privatelr.types import Placement

_SEED = 20_240_229
_Change = TypeVar("_Change", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Swap:
    """A replacement of one attribute or one entry of a dict, while a bug is planted.

    Attributes
    ----------
    owner : module, class or dict
        The object that is changed.
    name : str or key of a dict
        The attribute or the key whose value is replaced.
    value : object
        The value that replaces it.
    """

    owner: Any
    name: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Look:
    """A part of the audit: its name, and a function from random numbers to checks and rows."""

    name: str
    work: Callable[[np.random.Generator], Iterable[checks.Check | Row]]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug, how to plant it, and the parts of the audit that should catch it.

    Attributes
    ----------
    name : str
        The bug in a few words.
    swaps : callable
        Returns the swaps that plant the bug.
    looks : tuple of Look
        Parts of the audit, which run in this order until one of them catches the bug.
    """

    name: str
    swaps: Callable[[], Iterable[Swap]]
    looks: tuple[Look, ...]

    def caught_by(self) -> str:
        """The finding that caught the bug, in words; empty if none did.

        An audit that raises an error has not caught the bug, because the error may have any
        reason.
        """
        with planted(self.swaps()):
            for look in self.looks:
                for said, verdict in wrongs(look):
                    if verdict == checks.VIOLATION:
                        return f"{said}: {verdict}"
        return ""


def everywhere(function: Any, value: Any) -> list[Swap]:
    """Swaps of a function in every module of the package that holds it in its namespace."""
    return [
        Swap(module, name, value)
        for path, module in list(sys.modules.items())
        if path.startswith("privatelr")
        for name, held in list(vars(module).items())
        if held is function
    ]


def in_place_of(place: Any, change: Any) -> list[Swap]:
    """Swaps after which the package calls `change` instead of the function at `place`.

    A place is a function, which is replaced in all modules, or a pair of a name and the module,
    class or dict that holds it. The first argument of `change` is the function that it replaces.
    An entry of a dict is replaced by ``change(entry)``. A `change` that is not callable is itself
    the new value.
    """
    owner, name = place if isinstance(place, tuple) else (None, "")
    if isinstance(owner, dict):
        return [Swap(owner, name, change(owner[name]))]
    honest = inspect.getattr_static(owner, name) if owner else place
    inner = getattr(honest, "fget", getattr(honest, "__func__", honest))

    def changed(*given: Any, **named: Any) -> Any:
        return change(inner, *given, **named)

    kind = type(honest)
    value: Any = kind(changed) if kind in (property, classmethod, staticmethod) else changed
    value = value if callable(change) else change
    return [Swap(owner, name, value)] if owner else everywhere(honest, value)


def list_bug(
    bugs: list[Mutation], name: str, place: Any, *looks: Look
) -> Callable[[_Change], _Change]:
    """A decorator that adds a bug to a list; it decorates the `change` of `in_place_of`.

    If `place` is None, the decorated function yields pairs of a place and a change instead.
    """

    def plant(change: _Change) -> _Change:
        def swaps() -> Iterator[Swap]:
            for where, what in [(place, change)] if place else change():
                yield from in_place_of(where, what)

        bugs.append(Mutation(name, swaps, looks))
        return change

    return plant


@contextmanager
def planted(swaps: Iterable[Swap]) -> Iterator[None]:
    """Plant a bug for a ``with`` block; caches of the package are cleared before and after it."""
    with ExitStack() as undone:
        undone.callback(forget)
        for swap in swaps:
            if isinstance(swap.owner, dict):
                undone.enter_context(mock.patch.dict(swap.owner, {swap.name: swap.value}))
            else:
                undone.enter_context(mock.patch.object(swap.owner, swap.name, swap.value))
        forget()
        yield


def forget() -> None:
    """Clear the caches of all functions of the package."""
    modules = [module for name, module in sys.modules.items() if name.startswith("privatelr")]
    for held in [value for module in modules for value in list(vars(module).values())]:
        clear = getattr(held, "cache_clear", None)
        if callable(clear):
            clear()


def wrongs(look: Look) -> Iterator[tuple[str, str]]:
    """Everything that a part of the audit finds wrong, as pairs of its title and its verdict."""
    try:
        for found in look.work(np.random.default_rng(_SEED)):
            if not found.holds:
                yield found.title, found.verdict
    except Exception as failure:  # a package with a bug may raise anything
        yield look.name, checks.could_not(failure)


def times(factor: float) -> Callable[..., Any]:
    """A change that multiplies the returned number by a factor."""
    return lambda honest, *given, **named: factor * honest(*given, **named)


def nothing(*given: Any, **named: Any) -> None:
    """A change that does nothing and returns None."""


# -- the parts of the audit -----------------------------------------------------------------------

_BRIEF = checks.Effort(
    (checks.Setting(), checks.Setting(12.0, 4.0, checks.INTERCEPT_AND_SLOPE)), 0, 2_000, 1, 250
)
_ALPHA = 1e-6


def rows(*kinds: str) -> Look:
    """The audit of rows from random formulas, for these kinds of rows."""
    return Look(f"rows, {', '.join(kinds)}", lambda rng: audit_rows(rng, 4, kinds))


def row(placement: Placement, loss: str = "logistic", spend: Spend = ALL_FOR_COEFFICIENTS) -> Look:
    """The table row of a pure claim: worst pair and sampled bound."""
    request = Request(PureDP(1.0), placement, None, "free", "keep", spend)
    return Look(
        f"row, {placement}, {loss}{'' if spend == ALL_FOR_COEFFICIENTS else ', with scale'}",
        lambda rng: [audit_one(request, LOSSES[loss], _BRIEF, _ALPHA, rng)],
    )


def noise(only: str) -> Look:
    """The audit of the noise of mechanisms whose subject matches the pattern `only`."""
    return Look(f"noise, {only}", lambda rng: audit_noise(1.0, only))


def long(only: str) -> Look:
    """The audit of long records that match the pattern `only`."""
    return Look(f"long records, {only}", lambda rng: audit_long_records(1.0, only))


def changes(name: str, only: str) -> Look:
    """The audit of persons, strata, classes, offsets and weights that match a pattern."""
    return Look(name, lambda rng: audit_changes(1.0, rng, only))


def formulas(name: str, *only: str) -> Look:
    """The audit of fits of formulas that match one of the patterns."""
    return Look(
        name, lambda rng: chain.from_iterable(audit_formulas(1.0, pattern) for pattern in only)
    )


FRONT = formulas("fits of formulas", "y ~ x, *, epsilon = 1: *", "y ~ x + z, *, epsilon = 1: *")
SCALED = row("objective", spend=SCALE_BESIDE)
OFFSETS = changes("offsets", "offset*")
STAGED_FITS = formulas("fits of several stages", "* with *", "counts of scores: *")
DRAWS = Look(
    "draws",
    lambda rng: chain.from_iterable(
        audit_draws(rng, 700, f"2 classes, {d} columns, coefficients") for d in (2, 5)
    ),
)
RELEASES = Look("releases", lambda rng: audit_releases(rng, 1.0))
CHOICES = Look("choices", lambda rng: audit_plays(rng, 1.0, 4))
DECLARED = Look("bounds and levels", lambda rng: audit_declarations(1.0, 60))
ANSWERS = Look("answers", lambda rng: audit_answers(rng, 1.0, 4))
SIMPLEX = Look(
    "draws from the simplex", lambda rng: audit_simplex(1.0, rng, 3, [LOSSES["logistic"]])
)
TABLES = Look("tables", lambda rng: audit_tables())
LEDGER = Look("ledger", audit_ledger)
