"""Small public tables, each with the public schema that a private fit needs."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from privatelr.errors import ArgumentError, show

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def _home() -> Traversable:
    """The folder of tables: inside an installed package, or beside it in a checkout."""
    installed = resources.files("privatelr") / "_datasets"
    return installed if installed.is_dir() else Path(__file__).parents[1] / "datasets"


def list_datasets() -> list[str]:
    """Names that `load_dataset` knows."""
    names = (entry.name for entry in _home().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_dataset(name: str) -> pd.DataFrame:
    """A bundled table; columns with declared levels are categorical.

    Parameters
    ----------
    name : str
        ``"iris"`` or another of `list_datasets`.

    Raises
    ------
    ArgumentError
        Naming the tables there are.
    """
    levels = load_schema(name)["levels"]
    with (_home() / f"{name}.csv").open("rb") as file:
        frame = pd.read_csv(file)
    return frame.astype({key: pd.CategoricalDtype(values) for key, values in levels.items()})


def load_schema(name: str) -> dict[str, Any]:
    """Public ``bounds`` and ``levels`` of a bundled table, as keywords for `dplr`."""
    described = _describe(name)
    bounds = {key: tuple(pair) for key, pair in described.get("bounds", {}).items()}
    return {"bounds": bounds, "levels": dict(described.get("levels", {}))}


def _describe(name: str) -> dict[str, Any]:
    if name not in list_datasets():
        raise ArgumentError(
            f"name={show(name)}: name takes one of {', '.join(map(repr, list_datasets()))}."
        )
    return tomllib.loads((_home() / f"{name}.toml").read_text(encoding="utf-8"))
