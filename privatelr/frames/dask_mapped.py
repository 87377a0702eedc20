"""A function of each row of a Dask collection, which nobody computes before it is asked for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.frames.dask_collections import chosen, empty, is_array, whole_rows
from privatelr.frames.source import as_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def over_partitions(function: Callable[[Any], Any], data: Any, names: Sequence[str] | None) -> Any:
    """What a function says of each row of a table: a collection that nobody computed yet.

    Parameters
    ----------
    function
        Takes a frame or an array and returns a series or a frame of as many rows, of the same
        types for any number of them. It travels to the tasks.
    data
        A Dask frame or array.
    names : sequence of str, optional
        The columns of a frame that `function` reads; no others are loaded.

    Returns
    -------
    Dask series or frame, as `function` returns; for an array and a series a Dask array
    """
    import dask.dataframe as dd

    data = whole_rows(data)
    typed = empty(data)
    said = function(typed)  # refuses what does not fit by names and types, now and not later
    if not is_array(data):
        part = data if names is None else chosen(data, names)
        return part.map_partitions(_Told(function), meta=said, align_dataframes=False)
    if isinstance(said, pd.DataFrame):
        frame = dd.from_dask_array(data, columns=as_frame(typed).columns)
        return frame.map_partitions(_Told(function), meta=said, align_dataframes=False)
    told, values = _Told(function, np.asarray), said.to_numpy()
    return data.map_blocks(told, name=told.name, drop_axis=1, meta=values, dtype=values.dtype)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Told:
    """A function of a partition, and what becomes of its result, under a name of chance.

    Dask would name its tasks by what it holds.
    """

    function: Callable[[Any], Any]
    then: Callable[[Any], Any] | None = None
    name: str = field(default_factory=lambda: f"privatelr-predict-{uuid.uuid4().hex}")

    @property
    def __name__(self) -> str:
        return "privatelr-predict"

    def __call__(self, part: Any) -> Any:
        found = self.function(part)
        return found if self.then is None else self.then(found)

    def __dask_tokenize__(self) -> str:
        return self.name
