"""Reading the fits of a view of several fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from privatelr.errors import ArgumentError, show


def labelled(strata: Any) -> dict[str, Any]:
    """The fits of strata, by labels such as ``sex = female``."""
    return {f"{strata.by} = {level}": fit for level, fit in strata.items()}


def _is_strata(fits: Any) -> bool:
    return isinstance(fits, Mapping) and hasattr(fits, "by")


def named_fits(
    function: str,
    kind: type[Any],
    takes: str,
    fit: Any,
    others: Sequence[Any],
    labels: Callable[[Sequence[Any]], Sequence[str]],
    *,
    strata: bool = False,
) -> dict[str, Any]:
    """Read the fits of a view of several fits: one or more, one list, or one mapping from labels.

    Parameters
    ----------
    function, takes : str
        For errors: the name of the function, and what it takes.
    kind : type
        The fits have to be of this type.
    labels : callable
        Makes the labels of fits that were given without any.
    strata : bool
        Whether strata are taken, each as a fit.

    Raises
    ------
    ArgumentError
        If there is no fit, something else than a fit, or a label twice.
    """
    if strata and _is_strata(fit) and not others:
        fit = labelled(fit)
    if isinstance(fit, Mapping) and not others:
        named, given = [str(label) for label in fit], [*fit.values()]
    else:
        given = [*fit] if isinstance(fit, Sequence) and not others else [fit, *others]
        named = [*labels(given)]
    fits = list[tuple[str, Any]]()
    for label, one in zip(named, given, strict=True):
        spread = strata and _is_strata(one)
        parts = {f"{label}: {own}": part for own, part in labelled(one).items()} if spread else {}
        fits += parts.items() if spread else [(label, one)]
    for _, one in fits:
        if not isinstance(one, kind):
            raise ArgumentError(f"{function}: {show(one)} is no fit; it takes {takes}.")
    named = [label for label, _ in fits]
    if not named:
        raise ArgumentError(f"{function}: there is no fit; it takes {takes}.")
    twice = next((label for label in named if named.count(label) > 1), None)
    if twice is not None:
        raise ArgumentError(f"{function}: {show(twice)} is the label of two fits.")
    return dict(fits)
