"""Published tables that the studies read, and what is public about each of them.

The folder named by ``PRIVATELR_DATA_HOME``, or else ``shared/data`` beside the checkout, holds
the files under their names at the UCI repository and the LIBSVM site, compressed:
``adult/adult.data.gz`` and ``adult/adult.test.gz``, ``bank/bank-full.csv.gz``,
``clinical/german.data.gz``, ``a9a/a9a.gz`` and ``a9a/a9a.t.gz``, and
``kddcup99/kddcup.data_10_percent.gz``. Every factor is coded by one column for each of its
levels; numbers are mapped onto [-1, 1], as the package does, or onto another interval.
"""

from __future__ import annotations

import gzip
import math
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from privatelr.numerics.rows import DenseRows
from privatelr.types import Block, row_radius

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from privatelr.types import FloatArray

    Interval = tuple[float, float]
    Split = tuple[DenseRows, DenseRows]

HOME = "PRIVATELR_DATA_HOME"
INTERCEPT = 0.5


def data_home() -> Path | None:
    """The folder of the data sets, or None if there is none."""
    home = os.environ.get(HOME)
    if home:
        return Path(home)
    beside = Path(__file__).parents[3] / "shared" / "data"
    return beside if beside.is_dir() else None


@dataclass(frozen=True, slots=True)
class Schema:
    """What is public about a table: columns by their position in the file.

    Attributes
    ----------
    bounds : mapping
        Numeric column to ``(lo, hi)``.
    levels : mapping
        Factor to its levels, each of which gets a column.
    response, positive : int, str
    """

    bounds: Mapping[int, tuple[float, float]]
    levels: Mapping[int, tuple[str, ...]]
    response: int
    positive: str

    @property
    def blocks(self) -> tuple[Block, ...]:
        return product_of_blocks(len(self.bounds), [len(found) for found in self.levels.values()])


def product_of_blocks(numbers: int, factors: list[int]) -> tuple[Block, ...]:
    """Blocks of an intercept, numbers in [-1, 1], and factors with a column for each level."""
    singles = [Block(1, INTERCEPT)] + [Block(1, 1.0)] * numbers
    return (*singles, *(Block(size, 1.0) for size in factors))


def bound_of(blocks: tuple[Block, ...]) -> float:
    """The length of the covariates of a row: one for each number or factor."""
    return math.sqrt(len(blocks) - 1)


def radius_of(blocks: tuple[Block, ...]) -> float:
    """The length of a row with its intercept."""
    return row_radius(bound_of(blocks), INTERCEPT)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _codes(attribute: int, last: int, first: int = 1) -> tuple[str, ...]:
    return tuple(f"A{attribute}{code}" for code in range(first, last + 1))


ADULT = Schema(
    bounds={
        0: (17, 90),
        2: (13492, 1490400),
        4: (1, 16),
        10: (0, 99999),
        11: (0, 4356),
        12: (1, 99),
    },
    # the levels that occur in records without a missing value
    levels={
        1: _words(
            "Federal-gov Local-gov Private Self-emp-inc Self-emp-not-inc State-gov Without-pay"
        ),
        3: _words(
            "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate "
            "HS-grad Masters Preschool Prof-school Some-college"
        ),
        5: _words(
            "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married "
            "Separated Widowed"
        ),
        6: _words(
            "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing "
            "Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv Prof-specialty "
            "Protective-serv Sales Tech-support Transport-moving"
        ),
        7: _words("Husband Not-in-family Other-relative Own-child Unmarried Wife"),
        8: _words("Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"),
        9: ("Female", "Male"),
        13: _words(
            "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England "
            "France Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India "
            "Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) "
            "Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand "
            "Trinadad&Tobago United-States Vietnam Yugoslavia"
        ),
    },
    response=14,
    positive=">50K",
)
GERMAN = Schema(
    bounds={
        1: (4, 72),
        4: (250, 18424),
        7: (1, 4),
        10: (1, 4),
        12: (19, 75),
        15: (1, 4),
        17: (1, 2),
    },
    # the levels of the code book that occur
    levels={
        0: _codes(1, 4),
        2: _codes(3, 4, first=0),
        3: tuple(f"A4{code}" for code in (0, 1, 2, 3, 4, 5, 6, 8, 9, 10)),
        5: _codes(6, 5),
        6: _codes(7, 5),
        8: _codes(9, 4),
        9: _codes(10, 3),
        11: _codes(12, 4),
        13: _codes(14, 3),
        14: _codes(15, 3),
        16: _codes(17, 4),
        18: _codes(19, 2, first=1),
        19: _codes(20, 2),
    },
    response=20,
    positive="2",
)
BANK = Schema(
    # declared in round numbers, as one might who knows what is recorded and not the records
    bounds={
        0: (18, 95),
        5: (-5000, 20000),
        9: (1, 31),
        11: (0, 1800),
        12: (1, 20),
        13: (-1, 400),
        14: (0, 20),
    },
    levels={
        1: _words(
            "admin. blue-collar entrepreneur housemaid management retired self-employed services "
            "student technician unemployed unknown"
        ),
        2: _words("divorced married single"),
        3: _words("primary secondary tertiary unknown"),
        4: _words("no yes"),
        6: _words("no yes"),
        7: _words("no yes"),
        8: _words("cellular telephone unknown"),
        10: _words("jan feb mar apr may jun jul aug sep oct nov dec"),
        15: _words("failure other success unknown"),
    },
    response=16,
    positive="yes",
)
A9A_GROUPS = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
"""Columns of a9a for each of the attributes of Adult, in order: fifths of three numbers, two
ranges of each capital column, and the levels of the code book."""


def read_design(
    frame: pd.DataFrame, schema: Schema, interval: Interval
) -> tuple[FloatArray, FloatArray]:
    """Covariates ``(n, p)`` and labels ``(n,)``; a level that is not declared makes a NaN."""
    numbers, factors = [], []
    first, last = interval
    for column, (low, high) in schema.bounds.items():
        share = (frame[column].to_numpy(dtype=np.float64) - low) / (high - low)
        numbers.append(np.clip(first + (last - first) * share, first, last))
    for column, found in schema.levels.items():
        codes = pd.Index(found).get_indexer(frame[column])
        factors.append(np.vstack([np.eye(len(found)), np.full(len(found), np.nan)])[codes])
    return np.column_stack([*numbers, *factors]), labels_of(frame, schema)


def labels_of(frame: pd.DataFrame, schema: Schema) -> FloatArray:
    """Labels ``(n,)``; in one file of Adult they end with a dot."""
    positive = frame[schema.response].astype(str).str.rstrip(".") == schema.positive
    return np.where(positive, 1.0, -1.0)


def read_rows(frame: pd.DataFrame, schema: Schema, interval: Interval) -> DenseRows:
    """Bounded rows of records."""
    return bounded(*read_design(frame, schema, interval), schema.blocks)


def bounded(covariates: FloatArray, labels: FloatArray, blocks: tuple[Block, ...]) -> DenseRows:
    """Rows with an intercept, in blocks."""
    bound = bound_of(blocks)
    return DenseRows(covariates, labels, bound=bound, intercept=INTERCEPT, blocks=blocks)


def adult_files(home: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The two files of Adult, complete records only."""
    train, test = (
        pd.read_csv(
            home / "adult" / name,
            header=None,
            skipinitialspace=True,
            na_values="?",
            skiprows=skipped,
        ).dropna()
        for name, skipped in (("adult.data.gz", 0), ("adult.test.gz", 1))
    )
    return train, test


def adult_splits(home: Path, interval: Interval) -> Iterator[Split]:
    """The two files of Adult, in every run."""
    train, test = (read_rows(frame, ADULT, interval) for frame in adult_files(home))
    while True:
        yield train, test


def random_splits(frame: pd.DataFrame, schema: Schema, interval: Interval) -> Iterator[Split]:
    """Four fifths of the records to learn from and the rest to test, anew in every run."""
    for seed in count():
        order = np.random.default_rng(seed).permutation(len(frame))
        cut = len(frame) * 4 // 5
        parts = (frame.iloc[order[:cut]], frame.iloc[order[cut:]])
        train, test = (read_rows(part, schema, interval) for part in parts)
        yield train, test


def german_splits(home: Path, interval: Interval) -> Iterator[Split]:
    """German credit, split at random."""
    frame = pd.read_csv(home / "clinical" / "german.data.gz", header=None, sep=r"\s+")
    return random_splits(frame, GERMAN, interval)


def bank_splits(home: Path, interval: Interval) -> Iterator[Split]:
    """The full file of bank marketing, split at random."""
    frame = pd.read_csv(home / "bank" / "bank-full.csv.gz", header=None, sep=";", skiprows=1)
    return random_splits(frame, BANK, interval)


def a9a_splits(home: Path, interval: Interval) -> Iterator[Split]:
    """The two files of a9a, in every run; there are no numbers to map onto an interval."""
    sizes = list(A9A_GROUPS)
    blocks = product_of_blocks(0, sizes)
    train, test = (
        bounded(*read_binary(home / "a9a" / name, sum(sizes)), blocks)
        for name in ("a9a.gz", "a9a.t.gz")
    )
    while True:
        yield train, test


def read_binary(path: Path, columns: int) -> tuple[FloatArray, FloatArray]:
    """Covariates ``(n, columns)`` of zeros and ones, and labels, from "label 3:1 11:1 ..."."""
    with gzip.open(path, "rt", encoding="ascii") as lines:
        records = [line.split() for line in lines if line.strip()]
    covariates = np.zeros((len(records), columns))
    for row, (_, *entries) in zip(covariates, records, strict=True):
        row[[int(entry.partition(":")[0]) - 1 for entry in entries]] = 1.0
    return covariates, np.array([float(label) for label, *_ in records])
