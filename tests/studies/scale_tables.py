"""The binary tables of the study of private scale, as frames with declared bounds and levels.

Bounds are declared in round numbers, as one might who knows what is recorded and not the records.
Records with a missing value are left out. What the folder of tables holds is told in `tables`; the
study also takes ``a9a``, ``w8a``, ``blood``, ``spambase`` and ``clinical``, and two tables that
come with the package.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from privatelr.datasets import (
    fetch_adult,
    fetch_cod_rna,
    fetch_kddcup99,
    load_dataset,
    load_schema,
)

from .tables import A9A_GROUPS, BANK, GERMAN, Schema, read_binary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Half = Literal["choice", "report"]
KDD_RECORDS, W8A_RECORDS = 50_000, 20_000
"""Records that are used of the largest tables, drawn once; all would take most of the time."""


@dataclass(frozen=True, slots=True)
class Table:
    """What is public about a table, and how it is read.

    Attributes
    ----------
    half : {"choice", "report"}
        Whether numbers are chosen by it, or what was chosen is reported on it.
    n : int
        Number of records, about.
    read : callable
        Takes the folder of tables and returns the frame; the response is a column of booleans.
    bounds, levels : dict
    """

    half: Half
    n: int
    read: Callable[[Path], pd.DataFrame]
    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[Any]] = field(default_factory=dict)
    response: str = "positive"

    @property
    def formula(self) -> str:
        return f"{self.response} ~ ."


def read_table(name: str, home: Path) -> pd.DataFrame:
    """Return the declared columns and the response; a level is a text."""
    table = TABLES[name]
    frame = table.read(home)
    covariates = [*table.bounds, *table.levels]
    frame = frame[[*covariates, table.response]].dropna(ignore_index=True)
    texts = {name: pd.CategoricalDtype(found) for name, found in table.levels.items()}
    return frame.astype(texts | {table.response: bool})


def _published(name: str, response: str) -> dict[str, Any]:
    """Return bounds and levels of a schema of the package, but for the response."""
    found = load_schema(name)
    levels = {key: values for key, values in found["levels"].items() if key != response}
    return {"bounds": found["bounds"], "levels": levels}


def _by_position(schema: Schema) -> dict[str, Any]:
    """Return bounds and levels of a table whose columns are known by position."""
    bounds = {f"V{column}": interval for column, interval in schema.bounds.items()}
    return {"bounds": bounds, "levels": {f"V{j}": [*found] for j, found in schema.levels.items()}}


def _positive(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    positive = frame[schema.response].astype(str) == schema.positive
    return frame.rename(columns="V{}".format).assign(positive=positive)


def _adult(home: Path) -> pd.DataFrame:
    frame = fetch_adult()
    return frame.assign(positive=frame["income"] == ">50K")


def _bank(home: Path) -> pd.DataFrame:
    path = home / "bank" / "bank-full.csv.gz"
    return _positive(pd.read_csv(path, header=None, sep=";", skiprows=1), BANK)


def _german(home: Path) -> pd.DataFrame:
    path = home / "clinical" / "german.data.gz"
    return _positive(pd.read_csv(path, header=None, sep=r"\s+"), GERMAN)


def _kdd(home: Path) -> pd.DataFrame:
    frame = fetch_kddcup99().sample(KDD_RECORDS, random_state=0)
    return frame.assign(positive=frame["connection"] != "normal")


def _cod_rna(home: Path) -> pd.DataFrame:
    frame = fetch_cod_rna()
    return frame.assign(positive=frame["label"] == 1)


def _a9a(home: Path) -> pd.DataFrame:
    """The 14 attributes that the columns come from; "none" where none of them is set."""
    x, y = read_binary(home / "a9a" / "a9a.gz", sum(A9A_GROUPS))
    stops = np.cumsum(A9A_GROUPS)
    frame = {}
    for j, (stop, size) in enumerate(zip(stops, A9A_GROUPS, strict=True)):
        part = x[:, stop - size : stop]
        codes = np.where(part.any(axis=1), part.argmax(axis=1), size)
        frame[f"V{j}"] = np.array(_a9a_levels(size))[codes]
    return pd.DataFrame(frame).assign(positive=y > 0)


def _a9a_levels(size: int) -> list[str]:
    return [*(str(k) for k in range(size)), "none"]


def _w8a(home: Path) -> pd.DataFrame:
    x, y = read_binary(home / "w8a" / "w8a.gz", 300)
    frame = pd.DataFrame(x, columns=[f"V{j}" for j in range(300)])
    return frame.assign(positive=y > 0).sample(W8A_RECORDS, random_state=0)


def _spambase(home: Path) -> pd.DataFrame:
    frame = pd.read_csv(home / "spambase" / "spambase.data.gz", header=None)
    return frame.rename(columns="V{}".format).assign(positive=frame[57] == 1)


def _clinical(home: Path, *, name: str, response: str, positive: Any) -> pd.DataFrame:
    frame = pd.read_csv(home / "clinical" / f"{name}.csv.gz")
    factors = {"Pclass": str} if name == "titanic_train" else {}
    return frame.astype(factors).assign(positive=frame[response] == positive)


def _cleveland(home: Path) -> pd.DataFrame:
    path = home / "clinical" / "processed.cleveland.data.gz"
    frame = pd.read_csv(path, header=None, na_values="?").rename(columns="V{}".format)
    kept = frame.dropna().astype(dict.fromkeys(_CLEVELAND_LEVELS, int))
    return kept.astype(dict.fromkeys(_CLEVELAND_LEVELS, str)).assign(positive=kept["V13"] >= 1)


def _blood(home: Path) -> pd.DataFrame:
    frame = pd.read_csv(home / "blood" / "transfusion.data.gz", skipinitialspace=True)
    frame.columns = pd.Index(["recency", "frequency", "monetary", "time", "donated"])
    return frame.assign(positive=frame["donated"] == 1)


def _bundled(home: Path, *, name: str, response: str, positive: str) -> pd.DataFrame:
    frame = load_dataset(name)
    return frame.assign(positive=frame[response] == positive)


_CLEVELAND_LEVELS = {
    "V1": ["0", "1"],
    "V2": ["1", "2", "3", "4"],
    "V5": ["0", "1"],
    "V6": ["0", "1", "2"],
    "V8": ["0", "1"],
    "V10": ["1", "2", "3"],
    "V12": ["3", "6", "7"],
}
TABLES: dict[str, Table] = {
    "adult": Table("choice", 45_222, _adult, **_published("adult", "income")),
    "a9a": Table(
        "choice",
        32_561,
        _a9a,
        {},
        {f"V{j}": _a9a_levels(size) for j, size in enumerate(A9A_GROUPS)},
    ),
    "bank": Table("choice", 45_211, _bank, **_by_position(BANK)),
    "kddcup99": Table("choice", KDD_RECORDS, _kdd, **_published("kddcup99", "connection")),
    "german": Table("choice", 1_000, _german, **_by_position(GERMAN)),
    "SAheart": Table(
        "choice",
        462,
        partial(_clinical, name="SAheart", response="chd", positive=1),
        {
            "sbp": (80, 220),
            "tobacco": (0, 40),
            "ldl": (0, 16),
            "adiposity": (5, 50),
            "typea": (10, 80),
            "obesity": (15, 50),
            "alcohol": (0, 150),
            "age": (15, 65),
        },
        {"famhist": ["Absent", "Present"]},
    ),
    "titanic": Table(
        "choice",
        712,
        partial(_clinical, name="titanic_train", response="Survived", positive=1),
        {"Age": (0, 80), "SibSp": (0, 8), "Parch": (0, 8), "Fare": (0, 520)},
        {"Pclass": ["1", "2", "3"], "Sex": ["female", "male"], "Embarked": ["C", "Q", "S"]},
    ),
    "cod_rna": Table("report", 59_535, _cod_rna, **_published("cod_rna", "label")),
    "w8a": Table("report", W8A_RECORDS, _w8a, {f"V{j}": (0, 1) for j in range(300)}),
    "spambase": Table(
        "report",
        4_601,
        _spambase,
        {f"V{j}": (0, 100) for j in range(54)}
        | {"V54": (1, 1000), "V55": (1, 10_000), "V56": (1, 20_000)},
    ),
    "cleveland": Table(
        "report",
        297,
        _cleveland,
        {
            "V0": (20, 80),
            "V3": (80, 220),
            "V4": (100, 600),
            "V7": (60, 220),
            "V9": (0, 7),
            "V11": (0, 3),
        },
        _CLEVELAND_LEVELS,
    ),
    "transfusion": Table(
        "report", 748, _blood, {"recency": (0, 100), "frequency": (0, 60), "time": (0, 120)}
    ),
    "breast_cancer": Table(
        "report",
        569,
        partial(_bundled, name="breast_cancer", response="diagnosis", positive="malignant"),
        **_published("breast_cancer", "diagnosis"),
    ),
    "anes96": Table(
        "report",
        944,
        partial(_bundled, name="anes96", response="vote", positive="Dole"),
        **_published("anes96", "vote"),
    ),
}
"""The names are split once and for all: half for the choice, half for the report. Tables that the
prototype saw are for the choice; so is a9a, which is Adult in other columns."""
