"""What the front door takes as data: a frame, a sparse matrix with a response, or Dask's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from scipy import sparse

from privatelr.errors import ArgumentError
from privatelr.frames.dask_source import DaskTable, read_dask_design, read_dask_source
from privatelr.frames.design import DesignSpec, plan_design, read_design, read_labelled
from privatelr.frames.formula import parse_formula
from privatelr.frames.matrix import MatrixSpec, read_matrix_labels
from privatelr.frames.source import is_dask, read_source
from privatelr.frames.sparse_design import read_sparse, worth_sparse
from privatelr.frames.wide_matrix import (
    MatrixTable,
    WideSpec,
    plan_wide,
    read_matrix_source,
    read_wide,
)
from privatelr.numerics.dask_rows import MOST_SCORED, DaskRows
from privatelr.numerics.entries import EntryRows, few_are_filled
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.sparse_rows import sparse_backend

if TYPE_CHECKING:
    import pandas as pd

    from privatelr.frames.schema import Schema
    from privatelr.types import Rows

    Data: TypeAlias = pd.DataFrame | MatrixTable | DaskTable
    Spec: TypeAlias = DesignSpec | WideSpec


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
    typed = data.typed if isinstance(data, DaskTable) else data
    return plan_design(parse_formula(text, list(typed.columns)), typed, schema)


def require_plain(data: Data, *, do_scale: bool, rp_dim: int) -> None:
    """Refuse what R does with a frame for data that is none; raises `ArgumentError`."""
    if isinstance(data, MatrixTable) and (do_scale or rp_dim):
        raise ArgumentError("do_scale, rp_dim: a sparse matrix is neither scaled nor projected.")
    if isinstance(data, DaskTable) and do_scale:
        raise ArgumentError(
            "do_scale=True takes data in memory; declare bounds= for a Dask collection."
        )


def read_rows(spec: Spec, data: Data, *, bar: bool) -> Rows:
    """Bounded rows: without their zeros, where public facts say that most entries are.

    `bar` asks for a line that shows how far a pass over a Dask collection is.
    """
    if isinstance(spec, WideSpec) or isinstance(data, MatrixTable):
        assert isinstance(spec, WideSpec)
        assert isinstance(data, MatrixTable)
        covariates, labels = read_wide(spec, data.matrix, data.frame)
    elif isinstance(data, DaskTable):
        return read_dask_design(spec, data, DaskRows, bar=bar).rows
    elif worth_sparse(spec):
        covariates, labels = read_sparse(spec, data)
    else:
        return read_design(spec, data, DenseRows).rows
    return sparse_backend(
        covariates,
        labels,
        bound=spec.bound,
        intercept=spec.intercept,
        projection=spec.projection,
        blocks=spec.blocks,
    )


def read_entries(spec: DesignSpec | MatrixSpec, data: pd.DataFrame | MatrixTable) -> EntryRows:
    """Rows whose entries are bounded, without their zeros where most are said to be."""
    if isinstance(spec, MatrixSpec):
        assert isinstance(data, MatrixTable)
        labels = read_matrix_labels(spec, data.frame)
        return EntryRows(data.matrix, labels, x_bound=spec.x_bound, intercept=spec.intercept)
    assert not isinstance(data, MatrixTable)
    read = read_sparse if few_are_filled(spec.density) else read_labelled
    covariates, labels = read(spec, data)
    return EntryRows(covariates, labels, x_bound=spec.x_bound, intercept=spec.intercept)


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
