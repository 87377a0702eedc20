"""Reading the fits of a view of several fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from privatelr.errors import ArgumentError, show
from privatelr.results.fit_record import ModelRecord


def _strata_of(fits: Any) -> dict[str, Any] | None:
    """The fits of strata, by their labels; None for anything else."""
    is_strata = isinstance(fits, Mapping) and isinstance(getattr(fits, "by", None), str)
    return labelled(fits) if is_strata else None


def labelled(strata: Any) -> dict[str, Any]:
    """The fits of strata, by labels such as ``sex = female``."""
    return {f"{strata.by} = {level}": fit for level, fit in strata.items()}


def _spread(named: Sequence[str], given: Sequence[Any]) -> tuple[list[str], list[Any]]:
    """Put the fits of strata in the place of strata, and their levels after the labels."""
    found = list[tuple[str, Any]]()
    for label, one in zip(named, given, strict=True):
        strata = _strata_of(one)
        parts = None if strata is None else {f"{label}: {own}": fit for own, fit in strata.items()}
        found += [(label, one)] if parts is None else parts.items()
    return [label for label, _ in found], [one for _, one in found]


def named_fits(
    function: str,
    kind: type[Any],
    takes: str,
    fit: Any,
    others: Sequence[Any],
    labels: Callable[[Sequence[Any]], Sequence[str]],
    *,
    strata: bool = False,
    classes: bool = False,
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
    strata, classes : bool
        Whether strata are taken, each as a fit, and fits of several classes.

    Raises
    ------
    ArgumentError
        If there is no fit, something else than a fit, or a label twice.
    """
    if strata and not others and (only := _strata_of(fit)) is not None:
        named, given = [*only], [*only.values()]
    elif isinstance(fit, Mapping) and not others:
        named, given = [str(label) for label in fit], [*fit.values()]
    else:
        given = [*fit] if isinstance(fit, Sequence) and not others else [fit, *others]
        named = [*labels(given)]
    if strata:
        named, given = _spread(named, given)
    for one in given:
        several = isinstance(one, ModelRecord) and one.spec.response.kind == "classes"
        if several and not classes:
            raise ArgumentError(f"{function}: it takes fits of two classes, and one has more.")
        if not isinstance(one, kind):
            raise ArgumentError(f"{function}: {show(one)} is no fit; it takes {takes}.")
    if not named:
        raise ArgumentError(f"{function}: there is no fit; it takes {takes}.")
    twice = next((label for label in named if named.count(label) > 1), None)
    if twice is not None:
        raise ArgumentError(f"{function}: {show(twice)} is the label of two fits.")
    return dict(zip(named, given, strict=True))
