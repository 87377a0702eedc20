"""Tables as their users hold them: named columns, and what is public about them."""

from privatelr.sources.columns import (
    RowSlice,
    as_piece,
    columns_of,
    of_array,
    side_by_side,
    tally_of,
)
from privatelr.sources.counting import Tally, Unread, beyond, unknown
from privatelr.sources.dask_collections import (
    chosen,
    columns_apart,
    empty,
    is_array,
    lengths_of,
    over_partitions,
    partitions,
    unlisted,
    whole_rows,
)
from privatelr.sources.data_source import as_frame, dispatch, is_dask, quote, read_source
from privatelr.sources.schema import BoundsLike, LevelsLike, Schema, declare_schema
from privatelr.sources.validate_sparse import validated_sparse
