"""The part of a call that is about the design, as entries, and the plan that follows from it.

The formula is parsed, the declarations are checked, and the design is planned again, by the code
of a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from msgspec import UNSET, Meta, UnsetType

from privatelr import design
from privatelr.errors import PrivateLRError, ReleaseFileError
from privatelr.formula import MOST_RECORDS, Person, parse_formula, tokenize
from privatelr.results.release_files import file_entries as entries
from privatelr.results.release_files.json_values import named
from privatelr.sources import Batch, Payment, Schema, as_batch, declare_schema

_DTYPES = {"numbers": "float64", "strings": "string", "anything": "object"}
"""A column has one of these types, depending on the content of its variable."""
MOST_COLUMNS = 5_000
"""A design in a file has at most this number of columns."""


class VariableEntry(entries.FileEntry, frozen=True):
    """A variable, with its public facts.

    Attributes
    ----------
    content
        The kind of values that the type of the column allows.
    bounds
        Declared bounds (lo, hi); values beyond them are clipped.
    levels
        Declared levels, with the reference first.
    """

    name: entries.Name
    kind: Literal["numeric", "logical", "categorical", "text"]
    content: Literal["numbers", "strings", "anything"]
    bounds: entries.Pair | None
    levels: list[entries.Level]


class PriorEntry(entries.FileEntry, frozen=True):
    """Public coefficients to which the penalty draws.

    Attributes
    ----------
    means
        In the units of the columns, by names of coefficients, as pairs in the order of the call.
    source
        Where they come from, as the writer states it.
    sds
        Standard deviations for some of the same names.
    uncovered
        True where they are of an earlier fit that no guarantee covers.
    """

    means: Annotated[list[tuple[str, float]], Meta(min_length=1)]
    source: str
    sds: list[tuple[str, entries.Positive]]
    uncovered: bool


class PaymentEntry(entries.FileEntry, frozen=True):
    """What was paid for bounds or levels before the fit, as the writer states it.

    Attributes
    ----------
    columns
        All that were released together.
    n
        Number of records, or of persons.
    identifier
        Drawn with the release, which counts once wherever it is used.
    """

    kind: Literal["bounds", "levels"]
    columns: Annotated[list[entries.Name], Meta(min_length=1, max_length=10_000)]
    n: entries.Records
    guarantee: entries.GuaranteeEntry
    identifier: entries.Identifier


class FormulaEntry(entries.FileEntry, frozen=True, tag_field="columns", tag="of a formula"):
    """What was said about a table with named columns.

    Attributes
    ----------
    formula
        R formula, with the dot expanded.
    several_classes
        Whether each level of the response is a class of its own.
    intercept_scale
        The constant in the intercept column, in lengths of a row where rows are standardised under
        a guarantee that is not pure; null without an intercept.
    row_norm
        Largest length of a row, or of its columns without bounds; null for the usual one.
    projection
        Random matrix that was drawn without the data and is applied to the covariates.
    prior
        Present if the penalty draws to other coefficients than zero.
    paid
        Present if bounds or levels were paid for, apart from the guarantee of the fit.
    width
        Number of columns of the array that was fitted; absent if the columns had names.
    """

    formula: str
    variables: list[VariableEntry]
    several_classes: bool
    intercept_scale: entries.Positive | None
    row_norm: entries.Positive | None
    projection: list[Annotated[list[float], Meta(min_length=1)]] | UnsetType = UNSET
    prior: PriorEntry | UnsetType = UNSET
    paid: Annotated[list[PaymentEntry], Meta(min_length=1)] | UnsetType = UNSET
    width: Annotated[int, Meta(ge=1, le=10**6)] | UnsetType = UNSET


class PersonEntry(entries.FileEntry, frozen=True):
    """Who a record is of, next to a matrix, which has no names of columns.

    Attributes
    ----------
    column
        Name of the values that tell persons apart.
    records_per_person
        Number of records up to which each record of a person counts as much as everybody's.
    """

    column: Annotated[str, Meta(min_length=1, max_length=10_000, pattern="^[^`]*$")]
    records_per_person: Annotated[int, Meta(ge=1, le=MOST_RECORDS)]


class MatrixEntry(entries.FileEntry, frozen=True, tag_field="columns", tag="of a matrix"):
    """What was said about a response and a matrix of numbered columns.

    Attributes
    ----------
    width
        Number of columns of the matrix.
    response
        The variable that holds the classes.
    row_norm
        Largest length of a row; null if every entry is bounded by one instead.
    intercept_scale
        The constant in the intercept column.
    person
        Present if records are of persons, all of whose records are protected together.
    """

    width: Annotated[int, Meta(ge=1, le=10**6)]
    response: VariableEntry
    row_norm: entries.Positive | None
    intercept_scale: entries.Positive
    person: PersonEntry | UnsetType = UNSET


DesignEntry = FormulaEntry | MatrixEntry


# -- writing ---------------------------------------------------------------------------------


def design_entry(spec: Any, text: str, row_norm: float | None) -> dict[str, Any]:
    """What a call said about a design, from its plan.

    Parameters
    ----------
    spec : DesignSpec or NumberedSpec
    text : str
        The formula, which is that of all strata where the plan is of one.
    row_norm : float or None
        The length of standardised rows, unless it is the usual one.
    """
    variables = [_variable_entry(variable) for variable in spec.variables.values()]
    constant = spec.intercept
    if not spec.has_names:
        person: Any = UNSET
        if (told := spec.formula.person) is not None:
            person = entries.written(PersonEntry, told, records_per_person=told.most)
        return entries.written(
            MatrixEntry,
            width=spec.p,
            response=variables[0],
            row_norm=getattr(spec, "bound", None),
            intercept_scale=constant,
            person=person,
        )
    if spec.standard is not None:
        constant = None if constant is None else spec.standard.intercept_scale
    elif spec.unbounded_norm is not None:
        row_norm = spec.unbounded_norm
    elif spec.bound_source == "row_norm":
        row_norm = spec.bound
    prior: Any = UNSET
    if spec.prior is not None:
        pairs = {"means": list(spec.prior.means.items()), "sds": list(spec.prior.sds.items())}
        prior = entries.written(PriorEntry, spec.prior, **pairs)
    return entries.written(
        FormulaEntry,
        formula=text,
        variables=variables,
        several_classes=spec.response.kind == "classes",
        intercept_scale=constant,
        row_norm=row_norm,
        projection=UNSET if spec.projection is None else spec.projection,
        prior=prior,
        paid=[entries.written(PaymentEntry, one) for one in spec.paid] or UNSET,
        width=UNSET if spec.width is None else spec.width,
    )


def _variable_entry(variable: design.Variable) -> dict[str, Any]:
    is_bounded = variable.kind == "numeric" and variable.is_bounded
    return entries.written(VariableEntry, variable, bounds=variable.bounds if is_bounded else None)


# -- planning again ----------------------------------------------------------------------------


def plan_again(entry: DesignEntry, most: int, *, scaled: bool = False) -> tuple[Any, Schema]:
    """The plan that a call describes, before rows are standardised, and its declarations.

    Parameters
    ----------
    entry
    most : int
        Number of columns that the released coefficients allow.
    scaled : bool
        Whether rows are standardised, so that a row norm is about these.

    Raises
    ------
    ReleaseFileError
        If an entry is wrong. The message is part of a sentence.
    """
    try:
        with named("call.design"):
            if isinstance(entry, MatrixEntry):
                return _plan_matrix(entry, most)
            return _plan_formula(entry, most, scaled=scaled)
    except PrivateLRError:
        raise
    except Exception:  # formulaic and ast may raise any error about a text from a stranger
        raise ReleaseFileError("call.design: the formula and the variables do not fit") from None


def _plan_matrix(entry: MatrixEntry, most: int) -> tuple[Any, Schema]:
    if entry.width != most - 1:
        raise ReleaseFileError(f"call.design.width takes {most - 1}, one less than coefficients")
    batch, schema = _declare([entry.response], entry.intercept_scale, entry.row_norm)
    plan = design.plan_matrix if entry.row_norm is None else design.plan_wide
    name, person = entry.response.name, None
    if entry.person is not UNSET:
        person = Person(entry.person.column, entry.person.records_per_person)
        if person.column == name:
            raise ReleaseFileError("call.design.person takes another column than the response")
    return plan(name, batch, entry.width, schema, person), schema


def _plan_formula(entry: FormulaEntry, most: int, *, scaled: bool) -> tuple[Any, Schema]:
    names = dict.fromkeys(t.text for t in tokenize(entry.formula) if t.is_name)
    formula = parse_formula(entry.formula, list(names))
    if list(formula.variables) != [variable.name for variable in entry.variables]:
        raise ReleaseFileError("call.design.variables are not the columns that the formula reads")
    batch, schema = _declare(entry.variables, entry.intercept_scale, entry.row_norm)
    rows = None if isinstance(entry.projection, UnsetType) else entry.projection
    most = most if rows is None else len(rows) + 1
    if not len(formula.terms) <= most <= MOST_COLUMNS:
        raise ReleaseFileError(
            f"call.design.formula takes at most {MOST_COLUMNS} columns, and as many coefficients"
        )
    spec = design.plan_design(formula, batch, replace(schema, row_norm=None) if scaled else schema)
    if entry.several_classes:
        spec = design.with_classes(spec)
    if rows is not None:
        if len(rows) != spec.p or len({len(row) for row in rows}) != 1 or len(rows[0]) > spec.p:
            raise ReleaseFileError(f"call.design.projection takes {spec.p} rows of as many or less")
        spec = replace(spec.as_whole_rows(), projection=np.array(rows, dtype=np.float64))
    if entry.prior is not UNSET:
        means, sds = dict(entry.prior.means), dict(entry.prior.sds)
        if not sds.keys() <= means.keys():
            raise ReleaseFileError("call.design.prior.sds takes names that means has")
        prior = design.Prior(means, entry.prior.source, sds, entry.prior.uncovered)
        spec = replace(spec, prior=prior.for_plan(spec, only_shared=False))
    if entry.paid is not UNSET:
        spec = replace(spec, paid=tuple(map(_read_payment, entry.paid)))
        if not all(set(one.columns) & set(spec.variables) for one in spec.paid):
            raise ReleaseFileError("call.design.paid takes payments for some of the variables")
    if entry.width is not UNSET:
        spec = replace(spec, width=entry.width)
    return spec, schema


def _read_payment(one: PaymentEntry) -> Payment:
    guarantee = entries.read_guarantee(one.guarantee, "call.design.paid.guarantee")
    return Payment(one.kind, tuple(one.columns), one.n, guarantee, one.identifier)


def _declare(
    listed: Sequence[VariableEntry], intercept_scale: float | None, row_norm: float | None
) -> tuple[Batch, Schema]:
    """A batch without rows whose columns have the types of these variables, and their schema."""
    columns, bounds, levels = {}, {}, {}
    for one in listed:
        dtype: Any = _DTYPES[one.content]
        if one.kind == "logical":
            dtype = "bool"
        elif one.kind == "categorical" and len(one.levels) > 1:
            levels[one.name] = tuple(one.levels)
        elif one.kind == "categorical":  # a single level comes from the type of the column
            dtype = pd.CategoricalDtype(one.levels)
        elif one.kind == "numeric" and one.bounds is not None:
            bounds[one.name] = tuple(one.bounds)
        columns[one.name] = pd.Series([], dtype=dtype)
    declared = bounds, levels, row_norm, intercept_scale
    return as_batch(pd.DataFrame(columns)), declare_schema(*declared)
