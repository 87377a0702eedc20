"""Reading the fits of a view of several fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from privatelr.errors import ArgumentError, show
from privatelr.results.fit_record import ModelRecord


def named_fits(
    function: str,
    kind: type[Any],
    takes: str,
    fit: Any,
    others: Sequence[Any],
    labels: Callable[[Sequence[Any]], Sequence[str]],
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

    Raises
    ------
    ArgumentError
        If there is no fit, something else than a fit, or a label twice.
    """
    if isinstance(fit, Mapping) and not others:
        named, given = [str(label) for label in fit], [*fit.values()]
    else:
        given = [*fit] if isinstance(fit, Sequence) and not others else [fit, *others]
        named = [*labels(given)]
    for one in given:
        if isinstance(one, ModelRecord) and one.spec.response.kind == "classes":
            raise ArgumentError(f"{function}: it takes fits of two classes, and one has more.")
        if not isinstance(one, kind):
            raise ArgumentError(f"{function}: {show(one)} is no fit; it takes {takes}.")
    if not named:
        raise ArgumentError(f"{function}: there is no fit; it takes {takes}.")
    twice = next((label for label in named if named.count(label) > 1), None)
    if twice is not None:
        raise ArgumentError(f"{function}: {show(twice)} is the label of two fits.")
    return dict(zip(named, given, strict=True))
