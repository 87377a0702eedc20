"""Names of arguments: a call that misses one is told the name that it means."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from privatelr.errors import CallError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

P = ParamSpec("P")
R = TypeVar("R")

_SAME = {
    "accountant": "ledger",
    "alpha": "lambda_",
    "budget": "eps",
    "categories": "levels",
    "cutoff": "threshold",
    "data_norm": "row_norm",
    "df": "data",
    "epsilon": "eps",
    "inference": "spend",
    "l2": "lambda_",
    "lam": "lambda_",
    "limits": "bounds",
    "max_iter": "solver",
    "maxit": "solver",
    "method": "solver",
    "nobs": "n",
    "norm": "row_norm",
    "outcome": "target",
    "penalty": "lambda_",
    "random_state": "seed",
    "ranges": "bounds",
    "reg": "lambda_",
    "response": "target",
    "rng": "seed",
    "se": "spend",
    "standardize": "do_scale",
    "tol": "solver",
}
"""What other packages call an argument."""
_ONE_RECORD = "every record counts once and is protected by itself"
_NOTES = {
    "C": "for the C of scikit-learn lambda_ is 1 / (C n)",
    "cluster": _ONE_RECORD,
    "data": "it takes the number of records, and never the data",
    "family": "logistic regression is the one family that there is",
    "fit_intercept": "a formula leaves the intercept out by 0, as in 'y ~ 0 + age'",
    "groups": _ONE_RECORD,
    "intercept": "a formula leaves the intercept out by 0, as in 'y ~ 0 + age'",
    "kernel": "a support vector machine is linear here",
    "offset": "there are no offsets",
    "sample_weight": _ONE_RECORD,
    "start": "the minimum does not depend on where the solver starts",
    "subset": "choose records before the call, and by public facts, because their number is public",
    "weights": _ONE_RECORD,
}
"""What to say of arguments that other packages have."""


def suggests_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose calls are refused in one sentence where they miss its signature.

    The signature stays what it is, for readers of types and of help. The call takes one frame
    more, which the `stacklevel` of a warning has to count.
    """
    parameters = inspect.signature(function).parameters
    by_position = [name for name, one in parameters.items() if one.kind is not one.KEYWORD_ONLY]
    required = [name for name, one in parameters.items() if one.default is one.empty]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        place = by_position[: len(args)]
        unknown = next((name for name in kwargs if name not in parameters), None)
        if unknown is not None:
            hint = _hint(unknown, parameters)
            raise CallError(f"{unknown} is not an argument of {function.__name__}; {hint}")
        if len(args) > len(by_position):
            raise CallError(
                f"{function.__name__} takes {len(by_position)} arguments by position "
                f"({', '.join(by_position)}), not {len(args)}; write the others by name."
            )
        twice = next((name for name in place if name in kwargs), None)
        if twice is not None:
            raise CallError(f"{function.__name__} got {twice} twice, by position and by name.")
        missing = next((name for name in required if name not in {*place, *kwargs}), None)
        if missing is not None:
            raise CallError(f"{function.__name__} takes an argument {missing}, which is missing.")
        return function(*args, **kwargs)

    return checked


def _hint(name: str, known: Collection[str]) -> str:
    """What may be meant by an argument that is none, to the end of the sentence."""
    meant = _SAME.get(name)
    if meant in known:
        return f"did you mean {meant}?"
    if name in _NOTES and ("lambda_" in known or "lambda_" not in _NOTES[name]):
        return f"{_NOTES[name]}."
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}."
