"""A local check of the data before a budget is spent: how much of them a fit could use."""

from __future__ import annotations

from typing import Any

import numpy as np

from privatelr.arguments import suggests_arguments
from privatelr.design import doubts
from privatelr.errors import SchemaError
from privatelr.model_data import read_in_memory
from privatelr.results import DataCheck, DataCounts
from privatelr.sources import BoundsLike, LevelsLike, declare_schema, is_dask, totals


@suggests_arguments
def check(
    formula: Any = None,
    data: Any = None,
    *,
    target: str | int | None = None,
    bounds: BoundsLike | None = None,
    levels: LevelsLike | None = None,
    row_norm: float | None = None,
    intercept_scale: float = 0.5,
) -> DataCheck:
    """Count the values that a fit would use; the result is not private, and for the analyst only.

    A fit spends its budget even if the data cannot be used, because every cell is missing, because
    the bounds are in other units, or because no value is a declared level. This function shows
    such mistakes beforehand.

    Parameters
    ----------
    formula, data, target, bounds, levels, row_norm, intercept_scale
        As in `dplr`, except that Dask collections are not counted. The same functions read them.

    Returns
    -------
    DataCheck
        It prints as a page. Its ``table`` counts for each variable the values that are usable,
        missing (or not a number, or infinite), outside the bounds (these would be clipped) and
        undeclared. Its ``classes`` counts the usable records of both classes. It cannot be saved.

    Raises
    ------
    FormulaError, SchemaError
        In the same cases as `dplr`; the messages depend on public facts only.

    Notes
    -----
    **Privacy.** *Covered*: nothing; every number is exact, no noise is drawn and no ledger is
    charged. *Neighbours*: every number may change with one record. *Assumed public*: n, names,
    types, declared bounds and levels. *Not covered*: all of the result, as its type and its page
    say: it must not be published, and choices that follow from it (bounds, levels, a formula) are
    not covered by a guarantee.
    """
    if is_dask(formula) or is_dask(data):
        raise SchemaError(
            "data is a Dask collection, which check does not count; hand over data.compute(), or "
            "one of its partitions."
        )
    schema = declare_schema(bounds, levels, row_norm, intercept_scale)
    source = read_in_memory(formula, data, target)
    spec = source.plan(schema)
    with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
        rows, tally = source.rows(spec, bar=False)
        _, label = rows.scores(np.zeros(rows.d))
    found = None if tally is None else totals(tally)
    negative, positive = int(np.count_nonzero(label < 0)), int(np.count_nonzero(label > 0))
    counts = DataCounts(rows.n, negative, positive, spec.response, spec.variables, found)
    return DataCheck(spec.formula.text, counts, tuple(doubts(spec, source.batch, schema)))
