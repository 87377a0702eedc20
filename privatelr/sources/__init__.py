"""Tables as users hold them: named columns, and what is public about them."""

from privatelr.sources.arrow_files import files_of, is_pattern, kind_of, undressed
from privatelr.sources.columns import (
    Batch,
    Tally,
    beyond,
    constant_column,
    count,
    of_array,
    totals,
    unknown,
)
from privatelr.sources.dask_collections import over_partitions
from privatelr.sources.data_source import (
    as_batch,
    dispatch,
    is_dask,
    name_of_values,
    new_name,
    quote,
    read_source,
    validated_sparse,
)
from privatelr.sources.record_batches import RecordBatches
from privatelr.sources.schema import (
    BoundsLike,
    LevelsLike,
    PaidFor,
    Payment,
    Schema,
    declare_schema,
    draw_identifier,
    require_levels,
)
from privatelr.sources.stream_sources import as_stream, is_stream, over_pieces, stream, typed_batch
