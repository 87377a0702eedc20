"""Labelled rows whose length keeps a stated bound: dense, sparse, in Dask, or in a stream."""

from privatelr.numerics.rows.dask_rows import DaskRows
from privatelr.numerics.rows.dense_rows import (
    BLOCK_ROWS,
    DenseRows,
    LooseRows,
    additions,
    block_rows,
    piece_rows,
)
from privatelr.numerics.rows.entries import (
    EntryRows,
    bounded_entries,
    few_are_filled,
)
from privatelr.numerics.rows.partition_work import Work, checksum
from privatelr.numerics.rows.partitioned_rows import (
    MOST_SCORED,
    PartitionedRows,
    RowFacts,
)
from privatelr.numerics.rows.person_sums import grams_of_persons
from privatelr.numerics.rows.products import (
    column_sums,
    gram,
    margins,
    rough_gram,
    row_products,
    row_squares,
    weighted_sum,
)
from privatelr.numerics.rows.row_bounds import (
    LEAST_SHARE,
    RowBounds,
    bends_of,
    bounded_rows,
    held_in_blocks,
    linear_predictor,
    weights_of,
)
from privatelr.numerics.rows.sparse_rows import SparseRows, shares_within, sparse_backend
from privatelr.numerics.rows.stream_rows import StreamRows
