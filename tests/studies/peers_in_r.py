"""R's PrivateLR and DPpack on rows of the study of errors, called as a user of each would.

Both are given the rows that `peer_errors` gives everyone, at each epsilon:

- PrivateLR's ``dplr``, the rows divided by the length that none of them exceeds, since its
  documentation asks for rows in the unit ball; lambda is left to its default;
- DPpack's ``LogisticRegressionDP`` with the bounds of the columns and ``add.bias = TRUE``. Its
  gamma has no default: `GAMMA` is that of the example in its documentation.

``peers_in_r.R`` fits them. Tables go to R and coefficients come back in files of a folder.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .scale_tables import Table

PRIVATELR, DPPACK = "PrivateLR", "DPpack"
GAMMA = 1.0
SCRIPT = Path(__file__).with_suffix(".R")


@dataclass(frozen=True)
class InR:
    """What runs R, a folder of packages beside its own, and DPpack's gamma."""

    rscript: str
    library: str | None = None
    gamma: float = GAMMA


def bounds_of_rows(table: Table, width: int) -> pd.DataFrame:
    """Of each column of such rows: numbers lie in [-1, 1], and indicators in [0, 1]."""
    lower = np.zeros(width)
    lower[: len(table.bounds)] = -1
    return pd.DataFrame({"lower": lower, "upper": np.ones(width)})


def write_table(folder: Path, table: Table, x: np.ndarray, y: np.ndarray) -> None:
    """The files that the script reads."""
    frame = pd.DataFrame(x, columns=[f"x{place}" for place in range(1, x.shape[1] + 1)])
    frame.assign(y=y.astype(int)).to_csv(folder / "rows.csv", index=False)
    bounds_of_rows(table, x.shape[1]).to_csv(folder / "bounds.csv", index=False)


def links(coefficients: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Linear predictors of rows, a line for each line of coefficients, the intercept first."""
    found: np.ndarray = coefficients[:, :1] + coefficients[:, 1:] @ test.T
    return found


def fit_in_r(r: InR, folder: Path, norm: float, prices: Sequence[float]) -> dict[str, np.ndarray]:
    """Coefficients of both packages, a line for each epsilon."""
    command = [r.rscript, str(SCRIPT), str(folder), *map(repr, (norm, r.gamma, *prices))]
    where = {} if r.library is None else {"R_LIBS": r.library}
    ran = subprocess.run(
        command, env={**os.environ, **where}, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return {
        kind: np.loadtxt(folder / f"{kind.lower()}.csv", delimiter=",", ndmin=2)
        for kind in (PRIVATELR, DPPACK)
    }


def by_r(
    r: InR,
    table: Table,
    train: tuple[np.ndarray, np.ndarray],
    test: np.ndarray,
    norm: float,
    prices: Sequence[float],
) -> dict[str, dict[float, np.ndarray]]:
    """Linear predictors of other rows by both packages at each epsilon."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder, table, *train)
        found = fit_in_r(r, folder, norm, prices)
    divided = {PRIVATELR: test / norm, DPPACK: test}
    return {
        kind: dict(zip(prices, links(lines, divided[kind]), strict=True))
        for kind, lines in found.items()
    }
