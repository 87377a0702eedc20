"""Small public tables, and schema files with the public facts about a table."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.errors import ArgumentError, SchemaError, listed, or_meant, show
from privatelr.sources import declare_schema

_DECLARATIONS = ("bounds", "levels", "row_norm", "intercept_scale")
_ASKED = ("weights", "subset", "by", "person", "records_per_person", "prior")
"""What a call asks for beside its formula, which the same tables may always need."""
_REMARKS = ("title", "origin", "licence", "records")


def _home() -> Traversable:
    """The folder of tables, which is inside an installed package, or beside it in a checkout."""
    installed = resources.files("privatelr") / "_datasets"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "datasets"


def list_datasets() -> list[str]:
    """The names that `load_dataset` accepts.

    Examples
    --------
    >>> from privatelr.datasets import list_datasets
    >>> list_datasets()
    ['anes96', 'breast_cancer', 'iris']
    """
    return _names(".csv")


def _names(suffix: str) -> list[str]:
    names = (entry.name for entry in _home().iterdir())
    return sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix))


@suggests_arguments
def load_dataset(name: str) -> pd.DataFrame:
    """A bundled table; columns with declared levels are categorical.

    Parameters
    ----------
    name : str
        ``"iris"`` or another of `list_datasets`.

    Raises
    ------
    ArgumentError
        If there is no such table. A larger table has a function that fetches it, such as
        `fetch_adult`.

    Examples
    --------
    >>> from privatelr import load_dataset
    >>> len(load_dataset("anes96"))
    944
    """
    bundled = list_datasets()
    if name not in bundled:
        end = or_meant(name, bundled)
        if name in _names(".toml"):
            end = f"; this one is read by privatelr.datasets.fetch_{name}()."
        raise ArgumentError(
            f"name={show(name)}: name takes one of {', '.join(map(repr, bundled))}{end}"
        )
    with (_home() / f"{name}.csv").open("rb") as file:
        return with_levels(pd.read_csv(file), name)


def with_levels(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """A table whose columns with declared levels are categorical."""
    levels: dict[str, list[Any]] = load_schema(name)["levels"]
    return frame.astype({key: pd.CategoricalDtype(values) for key, values in levels.items()})


@suggests_arguments
def load_schema(name: str | os.PathLike[str]) -> dict[str, Any]:
    """The public facts about a table, as keywords for `dplr` and `dpsvm`.

    Parameters
    ----------
    name : str or path
        ``"iris"`` or another of `list_datasets`; ``"adult"``, ``"kddcup99"`` or ``"cod_rna"``,
        which are fetched; or the path of a schema file, which ends in ``.toml``. Such a file has a
        table ``[bounds]`` with a pair of numbers for each numeric variable, a table ``[levels]``
        with a list for each categorical variable, and before them, if needed, ``row_norm`` and
        ``intercept_scale``. It may say what `dplr` takes by the same names: ``weights = "1/p"``,
        ``subset``, ``by``, ``person``, ``records_per_person``, and a table ``[prior]``.

    Returns
    -------
    dict
        ``bounds``, ``levels``, and anything else that the file declares.

    Raises
    ------
    ArgumentError
        If there is no such table.
    OSError
        If there is no such file, or if it cannot be read.
    SchemaError
        If the file is not TOML, or has an unknown or wrong declaration.

    Notes
    -----
    **Privacy.** *Covered*: nothing, because no data is read. *Neighbours*: none. *Assumed
    public*: the file. *Not covered*: bounds that its author took from the data.

    Examples
    --------
    >>> from privatelr import load_schema
    >>> load_schema("anes96")["bounds"]["age"]
    (18, 99)
    """
    if isinstance(name, str) and not name.endswith(".toml"):
        bundled, known = list_datasets(), _names(".toml")
        if name not in known:
            listed = [*bundled, *(other for other in known if other not in bundled)]
            raise ArgumentError(
                f"name={show(name)}: name takes one of {', '.join(map(repr, listed))}, or a file "
                f"that ends in .toml{or_meant(name, known)}"
            )
        return _read(name, (_home() / f"{name}.toml").read_bytes(), _ASKED)[0]
    if not isinstance(name, str | os.PathLike):
        raise ArgumentError(f"name={show(name)}: name takes a text or a path.")
    declared, asked = load_study(name, _ASKED)
    return {**declared, **asked}


def load_study(
    name: str | os.PathLike[str], beside: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The declarations of a schema file, and what it says under the keys `beside` them.

    Raises
    ------
    ArgumentError, OSError, SchemaError
        As `load_schema`; also if a key that is about no column stands in the table of columns.

    Notes
    -----
    **Privacy.** As of `load_schema`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from privatelr.datasets import load_study
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "study.toml")
    ...     _ = path.write_text("formula = 'y ~ age'")
    ...     load_study(path, ["formula"])[1]
    {'formula': 'y ~ age'}
    """
    return _read(os.fsdecode(name), Path(name).read_bytes(), beside)


def _read(
    name: str, content: bytes, beside: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The declarations of a file, checked as `dplr` checks them, and what stands `beside` them."""
    try:
        described = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise SchemaError(f"schema {name!r}: the file is not UTF-8 text.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(f"schema {name!r}: the file is not TOML: {error}.") from None
    known = tuple(dict.fromkeys((*_DECLARATIONS, *_REMARKS, *sorted(beside))))
    for key in described:
        if key not in known:
            raise SchemaError(
                f"schema {name!r}: {key!r} is none of what a schema takes: "
                f"{listed(known, 12)}{or_meant(key, known)}"
            )
    declared = {"bounds": {}, "levels": {}} | {
        key: value for key, value in described.items() if key in _DECLARATIONS
    }
    for key, example in (("bounds", "age = [18, 90]"), ("levels", 'smoker = ["no", "yes"]')):
        if not isinstance(declared[key], dict):
            raise SchemaError(
                f"schema {name!r}: {key} takes a table, which begins with [{key}] and has lines "
                f"such as {example}."
            )
        for inner, value in declared[key].items():
            if inner in known and not isinstance(value, list):
                raise SchemaError(
                    f"schema {name!r}: {inner!r} stands below [{key}], where a line declares a "
                    "column; put it above the first line in brackets."
                )
    try:
        declare_schema(**declared)
    except SchemaError as error:
        raise SchemaError(f"schema {name!r}: {error}") from None
    declared["bounds"] = {key: tuple(pair) for key, pair in declared["bounds"].items()}
    others = {*beside} - {*_DECLARATIONS}
    run = {key: value for key, value in described.items() if key in others}
    _require_asked(name, run)
    return declared, run


def _require_asked(name: str, run: dict[str, Any]) -> None:
    """Check the types of what a file says of records, persons and a prior; `dplr` reads it."""
    for key, value in run.items():
        kind: type = str
        takes = "a text"
        if key not in _ASKED:
            continue
        if key == "records_per_person":
            kind, takes = int, "a whole number"
        if key == "prior" and isinstance(value, dict):
            kind, takes = dict, "numbers or pairs of them in a table [prior], or the name of a file"
            if not all(type(given) in (int, float, list) for given in value.values()):
                kind = type(None)
        if type(value) is not kind:
            raise SchemaError(f"schema {name!r}: {key} takes {takes}, not {show(value)}.")
