"""A table in Parquet, which states the types of its columns."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.cli.outcomes import InputError
from privatelr.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from privatelr.cli.tables import Reading, Wanted


class ParquetTable:
    """A Parquet file; its types are public, and nulls do not change them."""

    def __init__(self, stream: IO[bytes], shown: str) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingDependencyError(
                f"{shown}: reading Parquet takes pyarrow; install it with "
                "`pip install 'privatelr[parquet]'`, or pass the table as CSV."
            ) from None
        self._shown = shown
        self._errors = (pyarrow.ArrowException, OSError, UnicodeDecodeError)
        self._types = pyarrow.types
        try:
            self._file = pyarrow.parquet.ParquetFile(stream)
        except self._errors:
            raise InputError(f"{shown}: the file is not a Parquet table.") from None
        self._schema = self._file.schema_arrow
        named = [name for name in self._schema.names if name not in _index_of_pandas(self._schema)]
        if len(set(named)) < len(named):
            twice = next(name for name in named if named.count(name) > 1)
            raise InputError(f"{shown}: two columns are called {twice!r}, and names must differ.")
        self._names = tuple(named)

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @property
    def numbers_note(self) -> str:
        return ""

    def read(self, wanted: Mapping[str, Wanted]) -> tuple[pd.DataFrame, dict[str, Reading]]:
        """The wanted columns; see `Table`."""
        columns: dict[str, Any] = {}
        readings: dict[str, Reading] = {}
        try:
            table = self._file.read(columns=list(wanted))
            for name, how in wanted.items():
                columns[name], readings[name] = self._column(table.column(name), name, how)
        except self._errors:
            raise InputError(f"{self._shown}: the file is damaged.") from None
        return pd.DataFrame(columns), readings

    def _column(self, column: Any, name: str, how: Wanted) -> tuple[Any, Reading]:
        """Values whose type follows from the type of the column and from its declared levels."""
        types, of = self._types, column.type
        if types.is_dictionary(of):
            # the dictionary is a list of values that occur, and so no declaration of levels
            of = of.value_type
            column = column.cast(of)
        if types.is_string(of) or types.is_large_string(of):
            if how.reading == "text":
                return _coded(column, how, str, str), "text"
            return pd.array(_values(column), dtype="string"), "text"
        if types.is_boolean(of):
            if how.reading == "text" and {str(level).lower() for level in how.levels} == _TRUTH:
                return _coded(column, how, lambda cell: str(cell).lower(), str.lower), "text"
            return pd.array(column.to_pylist(), dtype="boolean"), "true or false"
        if types.is_integer(of) and how.reading == "text" and all(map(_is_whole, how.levels)):
            return _coded(column, how, str, str), "text"
        if types.is_integer(of) or types.is_decimal(of):
            return column.cast("float64", safe=False).to_numpy(), "numbers"
        if types.is_floating(of):
            return column.to_numpy(), "numbers"
        raise InputError(
            f"{self._shown}: the column {name!r} has the type {of}; a model takes numbers, texts "
            "and booleans."
        )


_TRUTH = {"true", "false"}


def _index_of_pandas(schema: Any) -> set[str]:
    """Names under which pandas has stored row labels, which are not a column of the table."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in stored if isinstance(name, str)}


def _is_whole(level: Any) -> bool:
    return bool(level.isascii() and level.lstrip("-").isdigit() and str(int(level)) == level)


def _values(column: Any) -> list[Any]:
    """Values, None for a null and for bytes that are no text, which one record may hold."""
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_decoded(cell) for cell in column.cast("large_binary").to_pylist()]
    return found


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _coded(
    column: Any, how: Wanted, spell: Callable[[Any], str], fold: Callable[[Any], str]
) -> Any:
    """Values as texts: as the levels that they spell, where levels are declared."""
    spelled = [None if value is None else spell(value) for value in _values(column)]
    if not how.levels:
        return pd.array(spelled, dtype="string")
    position = {fold(level): index for index, level in enumerate(how.levels)}
    codes = np.asarray(
        [-1 if text is None else position.get(text, -1) for text in spelled], dtype=np.intp
    )
    return pd.Categorical.from_codes(codes, categories=list(how.levels))
