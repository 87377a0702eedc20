"""Tables that tell of one record before any row is made: by a type, or by changing meanwhile."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.audit.checks import MISSING, Check, guarded
from privatelr.errors import PrivateLRError
from privatelr.lazy_import import lazy_import
from privatelr.model import dplr
from privatelr.model_data import read_data
from privatelr.sources import declare_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import dask
    import dask.dataframe as frames
else:
    dask = lazy_import("dask")
    frames = lazy_import("dask.dataframe")

PART = "rows"
_N = 12
_ODD = (7, None, "zzz", pd.Timestamp("2020-01-01"), pd.Period("2020-01"), 0.5j, [1], b"7")


def audit_tables() -> Iterator[Check]:
    """Checks that no type is read off values, and that data which change end a fit."""
    for name, made in _CONTAINERS.items():
        subject = f"{name}: records that change a type or an error"
        yield from guarded(PART, subject, _types, subject, made)
    subject = "Dask partitions that change: fits that came to an end"
    if find_spec("dask") is None:
        yield Check(PART, subject, failure=MISSING)
    else:
        yield from guarded(PART, subject, _changing, subject)


def _objects(values: list[Any]) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _columns(x: list[Any], y: list[Any]) -> Any:
    return np.stack([_objects(x), _objects(y)], axis=1)


_CONTAINERS: dict[str, Callable[[list[Any], list[Any]], tuple[Any, Any]]] = {
    "lists": lambda x, y: ("y ~ X1", {"X1": x, "y": y}),
    "arrays of objects": lambda x, y: ("y ~ X1", {"X1": _objects(x), "y": _objects(y)}),
    "a table of objects": lambda x, y: ("X2 ~ X1", _columns(x, y)),
    "y and X of objects": lambda x, y: (_objects(y), _objects(x).reshape(-1, 1)),
}


def _types(subject: str, made: Callable[[list[Any], list[Any]], Any]) -> Iterator[Check]:
    told, y = 0, [0, 1] * (_N // 2)
    for pair in (["a", "b"], [0.5, 1.0], [pd.Timestamp("2021-01-01")] * 2):
        before = _outcome(made(pair * (_N // 2), y))
        for odd in _ODD:
            other: list[Any] = [*pair * (_N // 2)]
            other[3] = odd
            told += _outcome(made(other, y)) != before
    yield Check(PART, subject, told)


def _outcome(given: tuple[Any, Any]) -> list[str]:
    """What a plan says of the columns, however the first is declared, or the error."""
    response = {"X2" if "X2" in str(given[0]) else "y": (0.0, 1.0)}
    found = []
    for schema in (
        declare_schema(bounds=response),
        declare_schema(bounds=response, levels={"X1": ["a", "b"]}),
        declare_schema(bounds={**response, "X1": (0.0, 1.0)}),
    ):
        try:
            spec = read_data(given[0], given[1], None).plan(schema)
            found.append(str([spec.variables[name] for name in sorted(spec.variables)]))
        except PrivateLRError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def _changing(subject: str) -> Iterator[Check]:
    first = pd.DataFrame({"x": np.linspace(-1, 1, _N), "y": [0.0, 1.0] * (_N // 2)})
    ended = 0
    for after in (2, 3):
        readings: list[int] = []

        def read(part: pd.DataFrame, after: int = after, seen: list[int] = readings) -> Any:
            seen.append(1)
            return part if len(seen) <= after else part.assign(x=-part["x"])

        table = frames.from_pandas(first, npartitions=1).map_partitions(read, meta=first.iloc[:0])
        with (
            dask.config.set({"scheduler": "synchronous", "privatelr.memory": "0"}),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            try:
                dplr("y ~ x", table, 1.0, bounds={"x": (-1, 1), "y": (0, 1)})
                ended += 1
            except PrivateLRError:
                pass
    yield Check(PART, subject, ended)
