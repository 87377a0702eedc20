"""What the user may hand over: a formula and a frame, a frame, an array, or ``(y, X)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd

from privatelr.errors import FormulaError, SchemaError


def read_source(first: Any, second: Any, target: str | int | None) -> tuple[str, pd.DataFrame]:
    """Return a formula and a frame for any way of calling `dplr`.

    Parameters
    ----------
    first, second
        ``(formula, data)``, ``(data, None)`` or ``(y, X)``, as R dispatches on its first
        argument.
    target
        Response column of a frame or an array, by name or by position counted from 0
        (negative from the end); the last column if None.
    """
    if isinstance(first, str):
        if target is not None:
            raise FormulaError(
                f"target={target!r}: the formula names the response; target goes with a frame or "
                "an array."
            )
        if second is None:
            raise FormulaError("data=None: data takes a frame or a mapping of columns.")
        return first, as_frame(second)
    if first is None:
        raise FormulaError(
            "formula=None: dplr takes a formula and data, a frame, an array, or y and X."
        )
    if second is None:
        frame = as_frame(first)
        return f"{quote(_target(frame, target))} ~ .", frame
    if target is not None:
        raise FormulaError(f"target={target!r}: with y and X the response is y; drop target.")
    return _labelled(first, second)


def as_frame(data: Any) -> pd.DataFrame:
    """A pandas frame with distinct text names and at least one row; never copies columns."""
    if isinstance(data, pd.DataFrame):
        frame = data
    elif isinstance(data, np.ndarray):
        frame = _from_array(data)
    elif isinstance(data, Mapping):
        frame = _from_mapping(data)
    else:
        try:
            frame = nw.from_native(data, eager_only=True).to_pandas()
        except TypeError:
            raise SchemaError(
                f"data of type {type(data).__name__}: data takes a data frame, a mapping of "
                "columns or an array."
            ) from None
    if len(frame) == 0:
        raise SchemaError("data is empty: a fit takes at least one record.")
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(f"data has two columns named {twice!r}; names must differ.")
    return frame if names == list(frame.columns) else frame.set_axis(names, axis=1)


def _from_array(data: np.ndarray[Any, Any]) -> pd.DataFrame:
    if data.ndim != 2:
        raise SchemaError(f"data of shape {data.shape}: an array of data takes two dimensions.")
    return pd.DataFrame(data, columns=[f"X{index + 1}" for index in range(data.shape[1])])


def _from_mapping(data: Mapping[Any, Any]) -> pd.DataFrame:
    try:
        return pd.DataFrame(dict(data))
    except ValueError:
        raise SchemaError("data: a mapping of columns takes columns of equal length.") from None


def _target(frame: pd.DataFrame, target: str | int | None) -> str:
    position = -1 if target is None else target
    if isinstance(position, str):
        if position not in frame.columns:
            raise FormulaError(
                f"target={position!r}: target takes one of {', '.join(map(repr, frame.columns))}."
            )
        return position
    whole = isinstance(position, int | np.integer) and not isinstance(position, bool)
    size = frame.shape[1]
    if not whole or not -size <= position < size:
        raise FormulaError(
            f"target={target!r}: target takes a column name or a position from {-size} to "
            f"{size - 1}."
        )
    return str(frame.columns[position])


def _labelled(response: Any, covariates: Any) -> tuple[str, pd.DataFrame]:
    """Put ``y`` and ``X`` into one frame."""
    one_dimensional = isinstance(covariates, pd.Series) or np.ndim(covariates) == 1
    if one_dimensional and not isinstance(covariates, Mapping):
        covariates = np.asarray(covariates).reshape(-1, 1)
    frame = as_frame(np.asarray(covariates) if isinstance(covariates, list) else covariates)
    values = response if isinstance(response, pd.Series | pd.Categorical) else np.asarray(response)
    if isinstance(values, np.ndarray) and values.ndim == 2 and 1 in values.shape:
        values = values.ravel()
    if len(values) != len(frame) or np.ndim(values) != 1:
        raise SchemaError(
            f"y has {len(values)} values and X has {len(frame)} rows: dplr(y, X) takes one value "
            "per row."
        )
    name = str(getattr(response, "name", None) or "y")
    while name in frame.columns:
        name += "_"
    column = values.array if isinstance(values, pd.Series) else values
    return f"{quote(name)} ~ .", frame.assign(**{name: column})


def quote(name: str) -> str:
    """A column name as a formula spells it."""
    if "`" in name:
        raise SchemaError(f"column {name!r}: a name in a formula cannot hold a backtick.")
    return f"`{name}`"
