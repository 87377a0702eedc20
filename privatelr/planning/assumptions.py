"""What a plan rests on, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.frames.design import DesignSpec
    from privatelr.planning.guesses import Guesses


def assumptions_of(
    spec: DesignSpec, guesses: Guesses, pilot: pd.DataFrame | None
) -> tuple[str, ...]:
    """One clause for each assumption."""
    if pilot is None:
        return (*_covariates(spec, guesses), *_labels(guesses), _usable())
    has_labels = all(name in pilot.columns for name in spec.formula.response.names)
    if has_labels:
        return (f"records are like the {len(pilot):,} of the public pilot",)
    like = f"covariates are like those of the {len(pilot):,} records of the public pilot"
    return (like, *_labels(guesses))


def _covariates(spec: DesignSpec, guesses: Guesses) -> list[str]:
    variables = [spec.variables[name] for name in spec.formula.covariates]
    found = []
    if any(not v.levels and v.is_bounded for v in variables):
        found.append(
            "numeric columns lie around the middle of their bounds, with a standard deviation of "
            f"{guesses.spread:g} of half their width (spread)"
        )
    if any(not v.is_bounded for v in variables):
        limit = spec.bound if spec.unbounded_norm is None else spec.unbounded_norm
        found.append(
            "columns without bounds are normal, and rows of them have a root mean square length "
            f"of {guesses.spread:g} (spread) of the limit {limit:g}"
        )
    if any(v.levels for v in variables):
        found.append("the levels of a factor are equally common")
    if len(variables) > 1:
        found.append("columns do not depend on each other")
    return found


def _labels(guesses: Guesses) -> list[str]:
    return [
        f"{guesses.balance:.3g} of the records are positive (balance)",
        f"the true probabilities are logistic with a C-index of {guesses.c_index:g} (c_index), to "
        "which all columns contribute alike",
    ]


def _usable() -> str:
    return "no value is missing"
