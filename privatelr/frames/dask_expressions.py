"""What is changed in Dask's own description of a frame before its partitions are read.

Parquet is read so that a pass over it is as short as it can be, and objects are not made into text
on the way. This leans on how Dask describes a frame to itself. Where a version of it does so
otherwise, the frame stays as it is.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def columns_apart(frame: Any) -> Any:
    """The same frame, with each column of a Parquet file in an array of its own.

    pandas lays columns of one type side by side, and then copies them once more to put them in
    order; what is read column by column is better left as Arrow holds it.
    """
    try:
        from dask.dataframe.dask_expr import new_collection
        from dask.dataframe.dask_expr.io.parquet import ReadParquet
    except ImportError:
        return frame
    try:
        expression = frame.expr
        for files in list(expression.find_operations(ReadParquet)):
            expression = expression.substitute(files, _apart(files))
        return new_collection(expression)
    except (AttributeError, ImportError, TypeError):
        return frame


def _apart(files: Any) -> Any:
    """An expression that reads Parquet, asked to leave columns apart unless told otherwise."""
    if "arrow_to_pandas" in files._parameters:
        options = files.operand("arrow_to_pandas") or {}
        return files.substitute_parameters({"arrow_to_pandas": {"split_blocks": True, **options}})
    return _fsspec_apart()(*files.operands) if files.operand("engine") == "pyarrow" else files


@cache
def _fsspec_apart() -> Any:
    """Dask's other reader of Parquet, whose options are dealt out for each file anew.

    It changes the options that it is given, and can then not name what it has changed.
    """
    from dask.dataframe.dask_expr.io.parquet import ReadParquetFSSpec

    class ReadParquetApart(ReadParquetFSSpec):  # type: ignore[misc]
        @property
        def _io_func(self) -> Any:
            read = super()._io_func
            if hasattr(read, "common_kwargs"):  # there are files
                options = read.common_kwargs.get("arrow_to_pandas", {})
                read.common_kwargs["arrow_to_pandas"] = {"split_blocks": True, **options}
            return read

    return ReadParquetApart


def objects_kept(frame: Any) -> Any:
    """The same frame without the text that Dask makes of objects when it makes a frame.

    It calls the code of each cell, and fails for one that cannot be spelled: an error that tells
    of one record. Cells are read by this package one by one. Only what stands between the frame
    and where it came from is changed, and nothing that its user computes with it.
    """
    try:
        from dask.dataframe.dask_expr import new_collection
        from dask.dataframe.dask_expr._expr import ArrowStringConversion, Projection
        from dask.dataframe.dask_expr.io.io import FromPandas
    except ImportError:
        return frame
    try:
        expression = source = frame.expr
        while isinstance(source, Projection):
            source = source.frame
        if isinstance(source, ArrowStringConversion):
            return new_collection(expression.substitute(source, source.frame))
        if isinstance(source, FromPandas) and source.pyarrow_strings_enabled:
            kept = source.substitute_parameters({"pyarrow_strings_enabled": False})
            return new_collection(expression.substitute(source, kept))
    except (AttributeError, ImportError, TypeError):
        pass
    return frame
