"""What scikit-learn hands to an estimator, as what the fitting functions take: tables and labels.

Lists and arrays of objects have no type that is public. Here they are tables of numbers, in which
any other cell is missing, except for columns with declared levels. The classes of a response are
declared, or follow from its type. They are read off its values only where nothing is promised.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from privatelr.cells import constant, number_or_spelled
from privatelr.design import as_objects, describe_variables, read_values, read_variable
from privatelr.errors import ArgumentError, SchemaError, show
from privatelr.sources import (
    Schema,
    as_batch,
    is_dask,
    name_of_values,
    of_array,
    quote,
    validated_sparse,
)

_PLAIN = (str, bool, int, float)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Labels:
    """The response of records, as a fitting function takes it; as private as the data.

    Attributes
    ----------
    name : str
        What the response is called, which is public: that of a Series, or y.
    classes : ndarray of shape (K,)
        The classes in ascending order, as scikit-learn wants them.
    column : Series of shape (n,)
        The response of each record.
    levels : tuple
        What the column holds for the classes; two or more, the first the reference.
    """

    name: str
    classes: np.ndarray[Any, Any]
    column: pd.Series[Any]
    levels: tuple[Hashable, ...]


def read_table(X: Any, levels: Mapping[str, Any] | None = None) -> Any:
    """Return a frame, or a sparse matrix, of covariates ``(n, p)``; frames are not copied.

    Raises
    ------
    SchemaError
        If it is no table of numbers, categories and texts, by its shape and its type alone.
    """
    if sparse.issparse(X):
        found = X
    elif is_dask(X) or hasattr(X, "columns"):
        found = as_batch(X).frame
    elif isinstance(X, list | tuple):
        found = _of_array(_cells(X), levels)
    elif hasattr(X, "__array__"):
        found = _of_array(X if isinstance(X, np.ma.MaskedArray) else np.asarray(X), levels)
    else:  # NumPy would find a type by all values
        raise SchemaError(
            f"X of type {type(X).__name__}: X takes a frame, an array, a list of rows or a sparse "
            "matrix."
        )
    if found.ndim != 2:
        raise SchemaError(f"X of ndim {found.ndim}: {_TWO}.")
    if found.shape[1] == 0:  # the number of records may be private
        raise SchemaError("X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required.")
    return found


_TWO = "X takes two dimensions. Reshape your data: one column is X.reshape(-1, 1)"


def _cells(rows: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return the cells of lists; a row of another length than the first one is missing."""
    first = next(filter(_is_row, rows), None)
    if first is None:
        raise SchemaError(f"X is a list without rows: {_TWO}.")
    cells = np.full((len(rows), len(first)), None, dtype=object)
    for place, row in enumerate(rows):
        if _is_row(row) and len(row) == len(first):
            for column, value in enumerate(row):
                cells[place, column] = value
    return cells


def _is_row(row: Any) -> bool:
    return type(row) in (list, tuple) or (type(row) is np.ndarray and row.ndim == 1)


def _of_array(values: np.ndarray[Any, Any], levels: Mapping[str, Any] | None) -> Any:
    if values.ndim != 2 or values.shape[1] == 0:
        return values
    if values.dtype.kind == "c":
        raise SchemaError(f"Complex data not supported: X is of type {values.dtype}.")
    if values.dtype.kind != "O" or isinstance(values, np.ma.MaskedArray):
        return as_batch(values).frame
    columns = {f"X{place + 1}": values[:, place] for place in range(values.shape[1])}
    read = {
        name: of_array(cells if name in (levels or ()) else _numbers(cells))
        for name, cells in columns.items()
    }
    return pd.DataFrame(read)


def _numbers(cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.fromiter(map(number_or_spelled, cells), dtype=np.float64, count=len(cells))


def as_sparse_frame(matrix: Any) -> pd.DataFrame:
    """Return a frame of sparse columns X1, X2, and so on, which takes bounds and weights."""
    frame = pd.DataFrame.sparse.from_spmatrix(validated_sparse(matrix))
    return frame.set_axis([f"X{place + 1}" for place in range(frame.shape[1])], axis=1)


def with_constants(table: Any, rows: np.ndarray[Any, Any], spec: Any) -> Any:
    """Return some records with a public constant in each cell that a fit cannot use.

    It is the middle of the bounds, 0 without bounds, or the first level.

    Parameters
    ----------
    table : DataFrame or sparse matrix of shape (n, p)
        As `read_table` returns it, with the names of the fit.
    rows : ndarray of shape (n,)
        True for the records that are wanted.
    spec
        The design of the fit.
    """
    if sparse.issparse(table):
        found = sparse.csr_array(table)[rows]
        found.data = np.where(np.isfinite(found.data), found.data, 0.0)
        return found
    known = table[rows]
    held = {name: one for name, one in spec.variables.items() if name in known}
    return pd.DataFrame({name: read_variable(one, known[name])[0] for name, one in held.items()})


def read_bounds(bounds: Any, names: Sequence[str], levels: Mapping[str, Any] | None) -> Any:
    """Return bounds by the names of columns: a mapping, or what stands for one.

    A pair of numbers is for each column without levels. A list has a pair for each column.
    """
    if bounds is None or isinstance(bounds, Mapping):
        return bounds
    pairs = list(bounds) if isinstance(bounds, list | tuple | np.ndarray) else []
    if len(pairs) == 2 and not any(isinstance(end, list | tuple | np.ndarray) for end in pairs):
        return {name: tuple(pairs) for name in names if name not in (levels or ())}
    if len(pairs) != len(names):
        raise ArgumentError(
            f"bounds={show(bounds)}: bounds takes a mapping from names of columns, one pair "
            "(low, high) for all columns, or a list of one pair for each column."
        )
    return {
        name: tuple(pair) if isinstance(pair, list | np.ndarray) else pair
        for name, pair in zip(names, pairs, strict=True)
    }


def read_response(y: Any, classes: Any, *, may_read: bool, of_clone: bool = False) -> Labels:
    """Return the response with its classes: those declared, those of its type, or those of values.

    Parameters
    ----------
    y : of shape (n,)
    classes : list, tuple or array, optional
        The declared classes.
    may_read : bool
        Whether classes that neither are declared nor follow from the type may be read off the
        values. Then nothing is promised, and errors depend on the values, too.
    of_clone : bool
        Whether scikit-learn made the estimator, and may hand numbers over in the place of classes.

    Raises
    ------
    ArgumentError, SchemaError
        By the type and the shape of `y`, and by what is declared.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself; the labels are as private as the data. *Neighbours*:
    one record has one label. *Assumed public*: the type of y, and `classes`. *Not covered*: classes
    that were read off the values.
    """
    column = column_of("y", y)
    if pd.api.types.is_complex_dtype(column.dtype):
        raise SchemaError(f"Complex data not supported: y is of type {column.dtype}.")
    if getattr(getattr(y, "dtype", None), "kind", "") == "S":
        raise SchemaError(f"y of type {y.dtype}: {_NO_LABELS}.")
    if classes is None:
        values = _classes_of_type(column.dtype) or _classes_in(column, may_read=may_read)
    else:
        values = _declared(classes)
        if of_clone and pd.api.types.is_integer_dtype(column.dtype):
            values = _as_encoded(classes, values)
        _require_fitting(column, classes, values)
    named = getattr(y, "name", None)
    name = named if isinstance(named, str) and named and "`" not in named else "y"
    return Labels(name, *_coded(column, values))


def column_of(name: str, values: Any) -> pd.Series[Any]:
    """Return one value for each record as a column whose type follows from that of `values`."""
    if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
        values = values.iloc[:, 0]
    apart = isinstance(values, Mapping | pd.DataFrame) or (values is None or np.isscalar(values))
    if apart or (isinstance(values, np.ndarray) and values.ndim != 1):
        raise SchemaError(
            f"{name} of type {type(values).__name__}: {name} takes one value for each row of X, in "
            "an array of one dimension, a Series or a list."
        )
    found: pd.Series[Any] = as_batch({name: values}).frame[name]
    return found


_NO_LABELS = (
    "classes are numbers, booleans or texts; write bytes, tuples and the like as texts, such as "
    "y.astype(str)"
)


def _classes_of_type(dtype: Any) -> tuple[Any, ...] | None:
    """Return the classes that the type of a response lists; None if it lists none."""
    if isinstance(dtype, pd.CategoricalDtype):
        listed = dtype.categories.tolist()
        if len(listed) < 2:
            raise SchemaError(
                "y: its categorical type has fewer than two classes; declare classes=."
            )
        return _in_order(listed)
    if pd.api.types.is_bool_dtype(dtype):
        return (False, True)
    if pd.api.types.is_float_dtype(dtype):
        raise SchemaError(
            f"Unknown label type: y of type {dtype} may hold any number; declare its classes, as "
            "in classes=(0, 1)."
        )
    return None


def _classes_in(column: pd.Series[Any], *, may_read: bool) -> tuple[Any, ...]:
    """Return the values that a response has, which are facts about the data."""
    if not may_read:
        raise SchemaError(
            f"y of type {column.dtype}: its classes would be read off the data; declare them, as "
            'in classes=(0, 1), or hand over booleans or a categorical type (classes="from data" '
            "reads them, and voids the guarantee)."
        )
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        found: Collection[Any] = np.unique(column.to_numpy()).tolist()
    else:
        objects = as_objects(column)
        found = {constant(value) for value in objects} - {None}
    if len(found) < 2:
        raise SchemaError(f"y has one class or none: {_NO_LABELS}.")
    return _in_order(found)


def _in_order(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return classes in ascending order, numbers before texts."""
    return tuple(sorted(values, key=lambda value: (isinstance(value, str), value)))


def _declared(classes: Any) -> tuple[Any, ...]:
    """Check declared classes; raises `ArgumentError`."""
    is_listed = isinstance(classes, list | tuple | np.ndarray)
    values = [v.item() if isinstance(v, np.generic) else v for v in classes] if is_listed else []
    plain = all(type(value) in _PLAIN and value == value for value in values)
    kinds = {isinstance(value, str) for value in values}
    if not plain or len(kinds) != 1 or not 2 <= len(set(values)) == len(values):
        raise ArgumentError(
            f"classes={show(classes)}: classes takes two or more different values, all of them "
            'numbers or all of them texts, as in classes=(0, 1), or "from data", which voids the '
            "guarantee."
        )
    return _in_order(values)


def _as_encoded(classes: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what whole numbers are classes of a clone: the places of texts in ascending order.

    Meta-estimators of scikit-learn replace classes by these places before they fit a clone.
    """
    places = tuple(range(len(values)))
    if values == places or all(isinstance(value, str) for value in values):
        return places
    raise SchemaError(
        f"classes={show(classes)}: scikit-learn cloned this estimator, and may hand it "
        f"{', '.join(map(str, places))} for these numbers. Write the classes as texts, as in "
        "y.astype(str)."
    )


def _require_fitting(column: pd.Series[Any], classes: Any, values: tuple[Any, ...]) -> None:
    """Refuse classes that no value of the type of y can equal."""
    schema = Schema(levels={"y": values})
    try:
        describe_variables(as_batch({"y": column}), ["y"], schema)
    except SchemaError:
        raise SchemaError(
            f"classes={show(classes)}: y of type {column.dtype} can hold none of them; declare "
            "them as y has them."
        ) from None


def _coded(
    column: pd.Series[Any], values: tuple[Any, ...]
) -> tuple[np.ndarray[Any, Any], pd.Series[Any], tuple[Hashable, ...]]:
    """Return classes, a response, and its levels: the classes, or texts for three or more."""
    kinds = {isinstance(value, str) for value in values}
    classes = np.array(values, dtype=None if len(kinds) == 1 else object)
    if len(values) == 2 or kinds == {True}:
        return classes, column, values
    batch, schema = as_batch({"y": column}), Schema(levels={"y": values})
    read, _ = read_values(describe_variables(batch, ["y"], schema), batch, ("y",))
    names = tuple(map(str if len(kinds) == 1 else repr, values))
    coded = pd.Categorical.from_codes(read["y"].codes, categories=pd.Index(names, dtype=object))
    return classes, pd.Series(coded), names


def as_call(
    table: Any, labels: Labels, beside: Mapping[str, Any], declared: Any
) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """Return the data of a call, and the arguments about them.

    Parameters
    ----------
    table : DataFrame or sparse matrix of shape (n, p)
        A frame gets the other columns in a copy that shares its data.
    labels : Labels
    beside : mapping
        Under ``"sample_weight"`` and ``"person"`` a value for each record, if they are given; a
        person may be the name of a column.
    declared
        Has bounds, levels and, with weights, their largest_weight.

    Raises
    ------
    SchemaError
        If the lengths differ; their numbers are not told, as persons have private ones of records.
    """
    is_named = isinstance(beside.get("person"), str)
    given = [name for name in beside if not (is_named and name == "person")]
    columns = [labels.column, *(column_of(name, beside[name]) for name in given)]
    if any(len(column) != table.shape[0] for column in columns):
        raise SchemaError(
            "X, y, sample_weight and person take one value for each record, and their lengths "
            "differ."
        )
    if sparse.issparse(table):
        whose = {"person": beside["person"]} if "person" in beside else {}
        levels = {labels.name: labels.levels}
        return (labels.column.rename(labels.name), table), {"levels": levels, **whose}
    wanted = [name_of_values(beside[name]) or name if name == "person" else name for name in given]
    response, *names = _apart([labels.name, *wanted], table.columns)
    named = dict(zip(given, names, strict=True))
    bounds = read_bounds(declared.bounds, list(table.columns), declared.levels)
    described: dict[str, Any] = {"levels": {**(declared.levels or {}), response: labels.levels}}
    if "sample_weight" in beside:
        described["weights"] = quote(named["sample_weight"])
        bounds = {**(bounds or {}), named["sample_weight"]: (0.0, declared.largest_weight)}
    if "person" in beside:
        described["person"] = named.get("person", beside["person"])
    frame = as_batch(table).assign(dict(zip([response, *names], columns, strict=True))).frame
    return (f"{quote(response)} ~ .", frame), {**described, "bounds": bounds}


def _apart(wanted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return names for columns that neither a table has nor one of them twice."""
    found, known = list[str](), {*taken}
    for name in wanted:
        while name in known:
            name += "_"
        known.add(name)
        found.append(name)
    return found
