"""Reading the fits of a view of several fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from privatelr.errors import ArgumentError, show


def labelled(strata: Any) -> dict[str, Any]:
    """The fits of strata, by labels such as ``sex = female``."""
    return {f"{strata.by} = {level}": fit for level, fit in strata.items()}


def _is_strata(fits: Any) -> bool:
    return isinstance(fits, Mapping) and hasattr(fits, "by")


def named_fits(
    function: str, kind: type[Any], takes: str, fits: Any, *, strata: bool = False
) -> dict[str, Any]:
    """Read the fits of a view of several fits: one, a list, or a mapping from labels.

    Fits without labels are numbered.

    Parameters
    ----------
    function, takes : str
        For errors: the name of the function, and what it takes.
    kind : type
        The fits have to be of this type.
    strata : bool
        Whether strata are taken, each as a fit.

    Raises
    ------
    ArgumentError
        If there is no fit, something else than a fit, or a label twice.
    """
    if strata and _is_strata(fits):
        fits = labelled(fits)
    if not isinstance(fits, Mapping):
        each = fits if isinstance(fits, Sequence) else [fits]
        fits = {f"({place})": one for place, one in enumerate(each, 1)}
    named = list[tuple[str, Any]]()
    for label, one in fits.items():
        if strata and _is_strata(one):
            named += [(f"{label}: {own}", part) for own, part in labelled(one).items()]
        else:
            named.append((str(label), one))
    for _, one in named:
        if not isinstance(one, kind):
            raise ArgumentError(f"{function}: {show(one)} is no fit; it takes {takes}.")
    if not named:
        raise ArgumentError(f"{function}: there is no fit; it takes {takes}.")
    times = Counter(label for label, _ in named)
    label, most = times.most_common(1)[0]
    if most > 1:
        raise ArgumentError(f"{function}: {show(label)} is the label of two fits.")
    return dict(named)
