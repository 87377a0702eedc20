"""Covariates of a record batch as they lie in memory, and the map that makes covariates of them.

Where each column of a design is a column of the data that is clipped and mapped, or is made of
levels, nothing has to be written to memory before it is summed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from privatelr.design import column_plan, offsets_and_weights
from privatelr.design.formula_design import DesignSpec
from privatelr.design.terms import Term
from privatelr.design.variables import as_numbers, read_values
from privatelr.errors import redact_errors
from privatelr.sources import as_batch
from privatelr.sources.record_batches import UNREAD
from privatelr.types import FloatArray, RawColumns


def raw_reader(spec: DesignSpec) -> Callable[[Any], RawColumns] | None:
    """Return a function of record batches, or None where covariates are more than mapped columns.

    It reads what `read_labelled` reads, and leaves clipping and mapping to others.

    Notes
    -----
    **Privacy.** *Covered*: nothing by itself, what is read is as private as the data. *Neighbours*:
    changing one record changes one row of it. *Assumed public*: the plan, which alone decides
    whether there is such a function. *Not covered*: time and memory.
    """
    columns, first = spec.columns, int(spec.columns.has_intercept)
    lengthened = spec.standard is not None and spec.standard.unit
    of_others = spec.formula.person is not None or spec.response.kind == "classes"
    if of_others or lengthened or spec.projection is not None:
        return None
    stretches, terms = spec.straight
    mapped = np.empty((4, len(columns.names)))
    mapped[0], mapped[1] = -np.inf, np.inf
    mapped[2] = np.where(columns.parent == 0, columns.centre, 0.0) * first
    mapped[3] = 1.0 / columns.scale
    places: dict[str, int] = {}
    for start, names, limits in stretches:
        mapped[:2, start : start + len(names)] = limits[:2, :, 0]
        places |= {name: start + place for place, name in enumerate(names)}
    made = [term for term in terms if term.numeric or term.categorical]
    return functools.partial(_read_raw, spec, mapped[:, first:], places, made)


def _read_raw(
    spec: DesignSpec,
    mapped: FloatArray,
    places: Mapping[str, int],
    made: Sequence[Term],
    records: Any,
) -> RawColumns:
    import pyarrow as pa

    with redact_errors(UNREAD, ours=()):  # its class may be one of others
        table = pa.Table.from_batches([records])
    first, n = int(spec.columns.has_intercept), len(table)
    found = {name: table.column(name).chunk(0) for name in places}
    plain = {
        name: column.to_numpy(zero_copy_only=True)
        for name, column in found.items()
        if column.type == pa.float64() and column.null_count == 0
    }
    used = sorted({index for term in made for index in (*term.numeric, *term.categorical)})
    kept = {name for index in used for name in spec.factors[index].expression.names}
    names = spec.formula.variables
    needed = tuple(name for name in names if name in kept or name not in places)
    others = [name for name in names if name in needed or name not in plain]
    batch = as_batch(table.select(others))
    design = np.empty((len(spec.columns.names), n)).T
    with np.errstate(all="ignore"):  # a warning would tell of a value
        values, usable = read_values(spec.variables, batch, needed)
        numbers, codes, coded = column_plan.read_factors(spec.factors, values, n, used)
        for term in made:
            column_plan.fill(design, term, numbers, codes)
        for child in np.flatnonzero(spec.columns.parent >= first):
            design[:, child] -= design[:, spec.columns.parent[child]] * spec.columns.centre[child]
        for name in set(places) - set(plain):
            design[:, places[name]] = as_numbers(batch[name])
        label, *offset = offsets_and_weights.read_targets(spec, values, usable & coded, batch)
    at = {place: plain[name] for name, place in places.items() if name in plain}
    columns = [at.get(place, design[:, place]) for place in range(first, len(spec.columns.names))]
    return RawColumns(columns, mapped, label, offset[0] if offset else None)
