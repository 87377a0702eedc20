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


def fit_in_r(
    rscript: str, folder: Path, norm: float, prices: Sequence[float], library: str | None
) -> dict[str, np.ndarray]:
    """Coefficients of both packages, a line for each epsilon."""
    command = [rscript, str(SCRIPT), str(folder), *map(repr, (norm, GAMMA, *prices))]
    where = {} if library is None else {"R_LIBS": library}
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
    r: tuple[str, str | None],
    table: Table,
    train: tuple[np.ndarray, np.ndarray],
    test: np.ndarray,
    norm: float,
    prices: Sequence[float],
) -> dict[str, dict[float, np.ndarray]]:
    """Linear predictors of other rows by both packages at each epsilon.

    ``r`` names Rscript, and a library of packages beside R's own or None.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_table(folder, table, *train)
        found = fit_in_r(r[0], folder, norm, prices, r[1])
    divided = {PRIVATELR: test / norm, DPPACK: test}
    return {
        kind: dict(zip(prices, links(lines, divided[kind]), strict=True))
        for kind, lines in found.items()
    }
