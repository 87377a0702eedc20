"""Random formulas with public declarations, and records that are as awkward as records can be.

An audit that starts from public facts believes what they say of rows. This one starts where a
user does: from a formula, bounds, levels and a frame with values at the bounds, beyond them,
missing, infinite, and of levels that were not declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from privatelr.types import ObjectArray

_LEVELS = ("low", "mid", "high", "top")
_STRANGE = ("undeclared", None)
_WIDE = tuple(f"l{index}" for index in range(90))
_FAR = (1e3, 1e300, np.inf, -1e3, -1e300, -np.inf, np.nan, 0.0, 5e-324)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A formula, what is declared, and records.

    Attributes
    ----------
    formula : str
    frame : DataFrame
        Of `n` records; its types do not depend on their values.
    declared : dict
        Arguments of `privatelr.sources.schema.declare_schema`, in their order.
    """

    formula: str
    frame: pd.DataFrame
    declared: Mapping[str, Any]

    @property
    def n(self) -> int:
        return len(self.frame)

    def with_record(self, index: int, rng: np.random.Generator) -> Case:
        """The same table but for one record, which is another one."""
        values = {name: column.to_numpy(copy=True) for name, column in self.frame.items()}
        for name, column in values.items():
            column[index] = _value(str(name), self.declared, rng)
        return replace(self, frame=_typed(values))


def random_case(rng: np.random.Generator, n: int, *, wide: bool = False) -> Case:
    """A formula of one to four terms over three numbers and two factors, some without bounds.

    With ``wide=True`` one of the terms is a factor of so many levels that its columns are held
    without their zeros.
    """
    bounds = {
        name: (low, low + 10.0 ** rng.uniform(-2, 3))
        for name, low in zip("abc", rng.normal(0, 10, 3).tolist(), strict=True)
        if rng.random() < 0.8
    }
    levels = {"f": _LEVELS[: rng.integers(2, 5)], "g": _LEVELS[:2], "w": _WIDE, "y": (0, 1)}
    pieces = ["a", "b", "c", "f", "g", "a:b", "a:f", "f:g", "I(b**2)", "I(a - c)", "b:c:g"]
    terms = rng.choice(pieces, rng.integers(1, 5), replace=False).tolist()
    if wide:
        terms = ["w", *terms[:2]]
    start = "0 + " if rng.random() < 0.3 else ""
    declared = {
        "bounds": bounds,
        "levels": {name: found for name, found in levels.items() if name != "y"},
        "row_norm": None if rng.random() < 0.5 else float(10.0 ** rng.uniform(-1, 1)),
        "intercept_scale": float(rng.choice([0.1, 0.5, 1.0, 3.0])),
    }
    return Case(f"y ~ {start}{' + '.join(terms)}", records(declared, n, rng), declared)


def numeric_case(rng: np.random.Generator, n: int, p: int) -> Case:
    """A formula of p numbers, which a matrix may hold as well; none has bounds."""
    names = [f"X{index + 1}" for index in range(p)]
    declared = {
        "bounds": {},
        "levels": {},
        "row_norm": float(rng.choice([0.3, 1.0, 5.0])),
        "intercept_scale": float(rng.choice([0.5, 1.0, 3.0])),
    }
    values = {name: _column(name, declared, n, rng) for name in [*names, "y"]}
    return Case(f"y ~ {' + '.join(names)}", _typed(values), declared)


def records(declared: Mapping[str, Any], n: int, rng: np.random.Generator) -> pd.DataFrame:
    """So many records of all variables there are."""
    return _typed({name: _column(name, declared, n, rng) for name in "abcfgwy"})


def _typed(values: Mapping[Any, Any]) -> pd.DataFrame:
    """A frame whose types say nothing of the values in it."""
    types = {name: object if name in ("f", "g", "w") else np.float64 for name in values}
    columns = {
        name: pd.Series(column, dtype=types[name], copy=False) for name, column in values.items()
    }
    return pd.DataFrame(columns)


def _column(name: str, declared: Mapping[str, Any], n: int, rng: np.random.Generator) -> Any:
    found: ObjectArray = np.empty(n, dtype=object)
    found[:] = [_value(name, declared, rng) for _ in range(n)]
    return found if name in ("f", "g", "w") else found.astype(np.float64)


def _value(name: str, declared: Mapping[str, Any], rng: np.random.Generator) -> Any:
    """One cell: mostly at an edge, now and then what no declaration knows."""
    odd = rng.random() < 0.04
    if name == "y":
        return float(rng.choice([np.nan, 7.0])) if odd else float(rng.integers(2))
    if name in declared["levels"]:
        known = declared["levels"][name]
        return _STRANGE[rng.integers(2)] if odd else known[rng.integers(len(known))]
    low, high = declared["bounds"].get(name, (-1.0, 1.0))
    if odd:
        return float(rng.choice(_FAR))
    edges = (low, high, (low + high) / 2, low - 1.0, high + 1.0, rng.uniform(low, high))
    return float(edges[rng.choice(6, p=[0.25, 0.25, 0.1, 0.15, 0.15, 0.1])])
