"""Files of Parquet and Feather as datasets of pyarrow, and what their own schemas say.

Which files there are, their columns and their types are public, so what is wrong with them is said
by the name of the file, and before a fit is charged.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from privatelr.errors import PrivateLRError, SchemaError, show
from privatelr.sources.columns import is_view

_KINDS = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "feather"),
}
_LOGS = {"Delta": "_delta_log", "Iceberg": "metadata/*.metadata.json", "Hudi": ".hoodie"}
"""Tables that keep files which no longer count, each with what their folder has beside them."""


def is_path(data: Any) -> bool:
    """Whether this names a file or folder that can be read, or is a list of such files."""
    if isinstance(data, list | tuple):  # other lists of texts may be a response
        return are_paths(data) and any(map(kind_of, data))
    if not isinstance(data, str | os.PathLike):
        return False
    return bool(kind_of(data)) or os.path.isdir(from_home(data))


def are_paths(data: Sequence[Any]) -> bool:
    """Whether a list has paths, or names, and nothing else."""
    return bool(data) and all(isinstance(one, str | os.PathLike) for one in data)


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return ``"parquet"`` or ``"feather"`` by what the name of a file ends in; empty for others.

    A pattern has the kind of its files.
    """
    return _KINDS.get(Path(path).suffix.lower(), "")


def is_pattern(path: str) -> bool:
    """Whether a path stands for files; a file may have a name that looks like a pattern."""
    return glob.has_magic(path) and not os.path.exists(path)


def files_of(path: str) -> list[str]:
    """Return the files that a pattern stands for, in the order of their names, or the path."""
    return sorted(glob.iglob(path, recursive=True)) if is_pattern(path) else [path]


def dataset_of(path: Any) -> Any:
    """Return the records of a file, a folder, a pattern of files, or a list of files and patterns.

    Raises
    ------
    SchemaError
        If there is no such file, if one cannot be read or is named twice, also by a link, or if
        they belong to a table whose log says which of them count.
    """
    paths = path if isinstance(path, list | tuple) else [path]
    named = [os.fspath(one) for one in paths]
    if len(named) == 1 and os.path.isdir(named[0]):
        return _of_files(_inside(named[0]), os.path.abspath(named[0]))
    files = [file for one in named for file in _found(one)]
    return _of_files(files, os.path.commonpath([_above(one) for one in named]))


def from_home(path: Any) -> Any:
    """Put the folder of the user in the place of a leading ~ of a path, or of those in a list."""
    if isinstance(path, list | tuple):
        return [os.path.expanduser(one) for one in path]
    return os.path.expanduser(path)


def require_local(path: str) -> None:
    """Refuse the address of files that are not on this machine; raises `SchemaError`."""
    if "://" in path:
        raise SchemaError(
            f"data={show(path)}: paths are those of this machine; hand over a dataset of pyarrow "
            "that was made with the filesystem of these files."
        )


def _found(path: str) -> list[str]:
    require_local(path)
    files = files_of(path)
    if not all(map(os.path.exists, files)) or not files:
        raise SchemaError(f"data={show(path)}: there is no such file.")
    if (folder := next(filter(os.path.isdir, files), None)) is not None:
        stands = "" if folder == path else f"it stands for the folder {show(folder)}; "
        raise SchemaError(
            f"data={show(path)}: {stands}a folder is a table of its own: hand over it alone, or a "
            f"pattern of its files, such as {show(os.path.join(folder, '*.parquet'))}."
        )
    return files


def _above(path: str) -> str:
    """Return the folder of a file, or the one above the first part of a pattern that varies."""
    parts = Path(os.path.abspath(path)).parts
    if not is_pattern(path):
        return os.path.join(*parts[:-1])
    return os.path.join(*takewhile(lambda part: not glob.has_magic(part), parts))


def _of_files(files: Sequence[str], base: str) -> Any:
    """Return a dataset that has the columns of all files, and those that folders below tell."""
    import pyarrow as pa
    import pyarrow.dataset

    files = list(map(os.path.abspath, files))
    places = list(map(os.path.realpath, files))
    for file, place in zip(files, places, strict=True):
        if places.count(place) > 1:
            raise SchemaError(
                f"data: {show(_shown(file))} is named twice, where links are names, too; "
                "name each file once, because each of its records would count twice."
            )
    _require_no_log(files)
    kinds = {kind_of(file): file for file in reversed(files)}
    if len(kinds) > 1 or "" in kinds:
        other = kinds.get("")
        neither = "" if other is None else f", and {show(_shown(other))} is neither"
        raise SchemaError(
            "data: several files are read together if all are Parquet, or all Feather, as their "
            f"endings say{neither}; convert them, or pass one."
        )
    below = {"partitioning": "hive", "partition_base_dir": base}
    try:
        made = pyarrow.dataset.dataset(files, format=_format_of(*kinds), **below)
    except (OSError, ValueError):  # the first file tells the types
        raise _unreadable(_shown(files[0])) from None
    names, more = set(made.schema.names), []
    for _, own, _ in own_schemas(made):
        more += [field for field in own if field.name not in names]
        names.update(own.names)
    return made.replace_schema(pa.schema([*made.schema, *more])) if more else made


def _require_no_log(files: Iterable[str]) -> None:
    """Refuse files of a table that says elsewhere which of its files and records count."""
    folders = {Path(file).parent for file in files}
    for folder in {above for one in folders for above in (one, *one.parents)}:
        for name, log in _LOGS.items():
            if next(folder.glob(log), None) is not None:
                raise SchemaError(
                    f"data: the files belong to the {name} table in {show(str(folder))}, whose log "
                    "says which of them count. Hand over an Arrow dataset or table of it, such as "
                    "DeltaTable.to_pyarrow_dataset()."
                )


def _inside(folder: str) -> list[str]:
    """Return the files of a folder; names that begin with _ or . are those of no records."""
    found = []
    for here, below, files in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(("_", "."))]
        found += [
            os.path.join(here, name)
            for name in files
            if not name.startswith(("_", ".")) and kind_of(name)
        ]
    if not found:
        raise SchemaError(
            f"data={show(folder)}: the folder has no file that ends in .parquet or .feather."
        )
    return sorted(found)


def require_typed(data: Any) -> None:
    """Refuse a dataset of pyarrow with files whose types are not written in them."""
    kind = getattr(getattr(data, "format", None), "default_extname", None)
    if kind in ("csv", "json"):
        raise SchemaError(
            f"data: a dataset of {kind} files reads types off the values, so that one record can "
            "end a call; convert the files to Parquet, or pass a CSV to the command line."
        )
    for part in getattr(data, "children", ()):
        require_typed(part)


def _shown(path: str) -> str:
    """Return the end of a path, as the whole may be long."""
    return "/".join(Path(path).parts[-2:])


def _unreadable(name: str) -> SchemaError:
    return SchemaError(
        f"data: {show(name)} could not be read as its ending says, or has two columns of one name."
    )


def _format_of(kind: str) -> Any:
    """Return a format of pyarrow that does not load a local file of Parquet ahead as a whole."""
    import pyarrow.dataset

    return pyarrow.dataset.ParquetFileFormat(pre_buffer=False) if kind == "parquet" else kind


# -- the schemas of files -------------------------------------------------------------------------


def own_schemas(data: Any) -> Iterator[tuple[str, Any, Collection[str]]]:
    """Yield the files of a dataset, each with its own schema and what its folders tell."""
    import pyarrow.dataset

    for fragment in _fragments(data):
        path = str(getattr(fragment, "path", "a table in memory"))
        name = _shown(path)
        try:
            own = fragment.physical_schema
        except (OSError, ValueError, PrivateLRError):  # of pyarrow, or of a user's file system
            raise _unreadable(name) from None
        yield name, own, pyarrow.dataset.get_partition_keys(fragment.partition_expression)


def require_types(data: Any, columns: Sequence[str], *, all_of_them: bool) -> None:
    """Refuse a file that has another type of a column: a cast may fail by what a value is.

    A file without a column is refused as well if `all_of_them` are asked for. Tables that say
    themselves that a column came later have files without it.
    """
    for file, own, told in own_schemas(data):
        for name in columns:
            place = own.get_field_index(name)
            if place < 0:
                if all_of_them and name not in told:
                    raise SchemaError(
                        f"data: {show(file)} has no column {name!r}, which other files have; "
                        "hand over files of the same columns."
                    )
                continue
            held, said = (undressed(one.field(name).type) for one in (own, data.schema))
            if held != said:
                raise SchemaError(
                    f"data: {show(file)} has the column {name!r} as {held}, and others have it as "
                    f"{said}; write files of one type."
                )


def _fragments(data: Any) -> Iterable[Any]:
    """The files of a dataset; one that is filtered tells their names alone, or is in memory."""
    import pyarrow.dataset

    try:
        return list(data.get_fragments())
    except ValueError:
        files = getattr(data, "files", ())
    if not files:  # those of a union stay as they are
        return chain.from_iterable(map(_fragments, getattr(data, "children", ())))
    how = {"format": data.format, "filesystem": data.filesystem}
    return list(pyarrow.dataset.dataset(files, **how).get_fragments())


def undressed(kind: Any) -> str:
    """Return the type of the values of a column, which is ``string`` for all texts."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return "string" if is_text or is_view(kind) else str(kind)
