"""A response and a sparse matrix of covariates whose rows are held to a length.

`privatelr.frames.matrix` describes matrices whose entries are held to one. Here rows are shortened,
as those of a formula are; no name of a column is kept, because there may be millions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privatelr.errors import FormulaError, SchemaError, show
from privatelr.frames.matrix import NumberedSpec, describe_numbered, read_matrix_labels
from privatelr.frames.sound_matrix import sound_matrix
from privatelr.frames.source import read_source
from privatelr.types import RowLimit

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.frames.factors import Factor
    from privatelr.frames.pieces import Piece
    from privatelr.frames.schema import Schema
    from privatelr.types import Block, FloatArray

_NORM = 1.0
"""Length that rows are held to where none is declared."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MatrixTable:
    """A response, in a frame of its own, and a sparse matrix of as many rows."""

    name: str
    frame: pd.DataFrame
    matrix: Any

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        return [self.name]


def read_matrix_source(first: Any, second: Any, target: Any) -> MatrixTable:
    """The table of a call ``dplr(y, X)`` with a SciPy sparse X."""
    if second.ndim != 2:
        raise SchemaError(f"X of shape {second.shape}: a sparse matrix takes two dimensions.")
    if isinstance(first, str) or first is None:
        raise FormulaError(
            f"formula={show(first)}: a sparse matrix has no names for a formula; the first "
            "argument is the response beside it, one value per row."
        )
    _, frame = read_source(first, np.zeros((second.shape[0], 1)), target)
    name = str(frame.columns[-1])
    return MatrixTable(name, frame[[name]], sound_matrix(second))


@dataclass(frozen=True, slots=True, eq=False)
class WideSpec(NumberedSpec):
    """A matrix whose rows are held to a length; public, and free of data.

    Attributes
    ----------
    bound : float
        Largest length of the covariates of a row; longer rows are shortened to it.
    """

    bound: float

    @property
    def radius(self) -> float:
        """R, the largest length of a design row, the intercept entry included."""
        return RowLimit(self.bound, self.intercept).radius

    @property
    def blocks(self) -> tuple[Block, ...]:
        return ()

    @property
    def factors(self) -> tuple[Factor, ...]:
        return ()

    @property
    def bound_source(self) -> Literal["row_norm"]:
        return "row_norm"

    @property
    def projection(self) -> None:
        return None


def plan_wide(name: str, column: pd.Series[Any], p: int, schema: Schema) -> WideSpec:
    """Describe a design as `plan_matrix` does, with a bound on the length of a row.

    It is ``schema.row_norm``, or 1 where none is declared.

    Raises
    ------
    SchemaError
        If the columns of the matrix are given bounds or levels.
    """
    extra = sorted({*schema.bounds, *schema.levels} - {name})
    if extra:
        raise SchemaError(
            f"bounds or levels of {extra[0]!r}: the columns of a matrix are bounded by row_norm= "
            "alone."
        )
    bound = _NORM if schema.row_norm is None else schema.row_norm
    return WideSpec(*describe_numbered(name, column, p, schema), bound)


def read_wide(spec: WideSpec, matrix: Any, frame: pd.DataFrame | Piece) -> tuple[Any, FloatArray]:
    """Covariates ``(n, p)`` and labels ``(n,)``: -1 or 1, and 0 for a response of no use.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, the rows are as private as the data.
    *Neighbours*: changing one record changes one row. *Assumed public*: n, p, the type and the
    levels of the response. *Not covered*: time and memory.
    """
    if matrix.ndim != 2 or matrix.shape[1] != spec.p:
        raise SchemaError(f"data of shape {matrix.shape}: the fit was of {spec.p} columns.")
    return matrix, read_matrix_labels(spec, frame)
