"""A formula, public bounds and a table become rows whose length has a public limit."""

from privatelr.design.column_plan import fill, read_factors
from privatelr.design.dask_design import read_dask_design, read_dask_source
from privatelr.design.formula_design import (
    DesignSpec,
    plan_design,
    read_covariates,
    read_design,
    read_labelled,
    read_sparse,
    read_sparse_covariates,
    reader_of,
    require_outcomes,
    require_readable,
    worth_sparse,
)
from privatelr.design.matrix_designs import (
    AS_FRAME,
    EntryBoundedMatrix,
    NormBoundedMatrix,
    NumberedColumns,
    as_matrix,
    plan_matrix,
    plan_wide,
    read_matrix_source,
    read_wide,
)
from privatelr.design.offsets_and_weights import (
    read_offset,
    read_roots,
    read_selected,
    with_equal_weights,
)
from privatelr.design.persons import require_persons_of, shares_of, with_shares
from privatelr.design.prior import (
    LONGEST_MARGIN,
    Prior,
    centre_of,
    most_stiffness,
    prior_of,
    require_same_bases,
    said_about,
)
from privatelr.design.response import (
    Response,
    read_labels,
    require_no_order,
    require_usable_response,
    with_classes,
)
from privatelr.design.scaling import (
    ScaledData,
    in_standard_units,
    plan_standard,
    project,
    projection_width,
    scale_by_data,
    scaled,
    standardise,
    unstandardised,
)
from privatelr.design.stream_design import (
    CHANGED,
    read_stream_design,
    read_stream_source,
)
from privatelr.design.terms import (
    INTERCEPT,
    Columns,
    plan_columns,
    range_of,
)
from privatelr.design.type_checks import doubts, warn_of_doubts
from privatelr.design.variables import (
    Variable,
    as_objects,
    describe_variables,
    level_codes,
    read_values,
    read_variable,
)

RowSpec = DesignSpec | NormBoundedMatrix
"""The plan of rows whose length is bounded: by a formula, or of a matrix."""
EntrySpec = DesignSpec | EntryBoundedMatrix
"""The plan of rows whose entries are bounded."""
AnySpec = RowSpec | EntryBoundedMatrix
"""The plan of the rows of a fit."""
