"""What the front door takes as data: a frame, a sparse matrix with a response, or Dask's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from scipy import sparse

from privatelr.design import (
    DaskTable,
    DesignSpec,
    EntryBoundedMatrix,
    MatrixTable,
    NormBoundedMatrix,
    plan_design,
    plan_wide,
    read_dask_design,
    read_dask_source,
    read_design,
    read_labelled,
    read_matrix_labels,
    read_matrix_source,
    read_sparse,
    read_wide,
    warn_of_doubts,
    worth_sparse,
)
from privatelr.errors import ArgumentError
from privatelr.formula import parse_formula
from privatelr.numerics.rows import (
    MOST_SCORED,
    DaskRows,
    DenseRows,
    EntryRows,
    few_are_filled,
    sparse_backend,
)
from privatelr.sources import Tally, as_piece, is_dask, read_source

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.sources import RowSlice, Schema
    from privatelr.types import Rows

    Data: TypeAlias = pd.DataFrame | MatrixTable | DaskTable
    Spec: TypeAlias = DesignSpec | NormBoundedMatrix


def read_data(first: Any, second: Any, target: Any) -> tuple[str, Data]:
    """Formula, or name of the response of a matrix, and the data of a call."""
    if sparse.issparse(second):
        table = read_matrix_source(first, second, target)
        return table.name, table
    if is_dask(first) or is_dask(second):
        return read_dask_source(first, second, target)
    return read_source(first, second, target)


def plan_data(text: str, data: Data, schema: Schema) -> Spec:
    """The plan of the rows; takes names, types and declarations."""
    if isinstance(data, MatrixTable):
        return plan_wide(text, data.frame[text], data.matrix.shape[1], schema)
    frame = typed(data)
    return plan_design(parse_formula(text, list(frame.columns)), frame, schema)


def warn_of_declarations(spec: Any, data: Data, schema: Schema, stacklevel: int) -> None:
    """Say what is declared and probably not meant; see `doubts`."""
    warn_of_doubts(spec, typed(data), schema, stacklevel + 1)


def typed(data: Data) -> pd.DataFrame:
    """A frame with the columns and their types; its rows are not for looking at."""
    if isinstance(data, MatrixTable):
        return data.frame
    return data.typed if isinstance(data, DaskTable) else data


def require_plain(data: Data, *, do_scale: bool, rp_dim: int) -> None:
    """Refuse what R does with a frame for data that is none; raises `ArgumentError`."""
    if isinstance(data, MatrixTable) and (do_scale or rp_dim):
        raise ArgumentError("do_scale, rp_dim: a sparse matrix is neither scaled nor projected.")
    if isinstance(data, DaskTable) and do_scale:
        raise ArgumentError(
            "do_scale=True takes data in memory; declare bounds= for a Dask collection."
        )


def read_rows(spec: Spec, data: Data, *, bar: bool) -> tuple[Rows, Tally | None]:
    """Bounded rows: without their zeros, where public facts say that most entries are.

    `bar` asks for a line that shows how far a pass over a Dask collection is.

    Returns
    -------
    rows : Rows
    tally : Tally or None
        What was not read as it is, which is not private; a Dask collection is not counted.
    """
    tally = Tally()
    if isinstance(spec, NormBoundedMatrix) or isinstance(data, MatrixTable):
        assert isinstance(spec, NormBoundedMatrix)
        assert isinstance(data, MatrixTable)
        covariates, labels = read_wide(spec, data.matrix, _counted(spec, data.frame, tally))
    elif isinstance(data, DaskTable):
        return read_dask_design(spec, data, DaskRows, bar=bar).rows, None
    elif worth_sparse(spec):
        covariates, labels = read_sparse(spec, _counted(spec, data, tally))
    else:
        design = read_design(spec, data, DenseRows)
        return design.rows, design.tally
    rows = sparse_backend(
        covariates,
        labels,
        bound=spec.bound,
        intercept=spec.intercept,
        projection=spec.projection,
        blocks=spec.blocks,
    )
    return rows, tally


def read_entries(
    spec: DesignSpec | EntryBoundedMatrix, data: pd.DataFrame | MatrixTable
) -> tuple[EntryRows, Tally]:
    """Rows whose entries are bounded, without their zeros where most are said to be; a tally."""
    tally = Tally()
    if isinstance(spec, EntryBoundedMatrix):
        assert isinstance(data, MatrixTable)
        covariates = data.matrix
        labels = read_matrix_labels(spec, _counted(spec, data.frame, tally))
    else:
        assert not isinstance(data, MatrixTable)
        read = read_sparse if few_are_filled(spec.density) else read_labelled
        covariates, labels = read(spec, _counted(spec, data, tally))
    rows = EntryRows(covariates, labels, x_bound=spec.x_bound, intercept=spec.intercept)
    return rows, tally


def _counted(spec: Any, frame: pd.DataFrame, tally: Tally) -> RowSlice:
    """All of a frame, to be counted as it is read."""
    return as_piece(frame, tuple(spec.variables), tally)


def require_scores(data: Data, rule: str | None) -> bool:
    """Whether every record is scored; refuses a rule that learns from the scores where not."""
    if not isinstance(data, DaskTable) or len(data) <= MOST_SCORED:
        return True
    if rule is not None:
        raise ArgumentError(
            f"threshold={rule!r}: it is learned from the score of every record, of which a "
            f"Dask collection may have {MOST_SCORED}; threshold takes a number here."
        )
    return False
