"""Restoring the plan of a design, of a formula or of a matrix, from a file.

Derived entries are not trusted: the formula is parsed, the declarations are checked, and the
design is planned again, as for a fit. The result must agree with the file. The few numbers of the
map that predictions use are then taken from the file, so that the map is the same on a machine
whose logarithm rounds differently.

The size of a formula is checked before it is expanded, because a few characters can cause much
work: ``(a + b + c)^10``, a product of two factors, or a contrast that is computed. A saved file
names all columns of its design, so the length of the file bounds the work of planning it. A file
that needs more was not written by `save`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from msgspec import UNSET

from privatelr import design
from privatelr.design import DesignSpec, Variable
from privatelr.errors import PrivateLRError, ReleaseFileError
from privatelr.formula import (
    CLOSING,
    OPENING,
    Person,
    Token,
    closing_index,
    parse_formula,
    tokenize,
)
from privatelr.results.release_files.calibration_file import restore_guarantee
from privatelr.results.release_files.design_entries import (
    AnyDesign,
    FormulaEntry,
    VariableEntry,
)
from privatelr.results.release_files.json_values import CLOSE, named, require_same
from privatelr.sources import Batch, Payment, as_batch, declare_schema

_DTYPES = {"numbers": "float64", "strings": "string", "anything": "object"}
"""A column has one of these types, depending on the content of its variable."""
MOST_COLUMNS = 5_000
"""A design in a file has at most this number of columns."""
LONGEST_FORMULA = 200_000
"""A formula has at most this number of characters."""
DEEPEST_BRACKETS = 50
"""The brackets of a formula are nested at most this deep."""
MOST_WORK = 1e7
"""A formula is expanded in at most this number of steps, which take one or two seconds; a sum of
4,000 terms needs about as many, and so do all pairs of 600 variables."""
_PRODUCT = 20.0
"""A product of two terms takes the time of this number of steps of a sum."""
_POWERS = ("^", "**")
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, ":": 2, "^": 3, "**": 3}


def restore_plan(entry: AnyDesign, scale: Callable[[DesignSpec], DesignSpec] | None = None) -> Any:
    """The plan that an entry describes, computed from its declarations.

    Parameters
    ----------
    entry
    scale
        Standardises a plan by the moments of the file, if there are any.

    Raises
    ------
    ReleaseFileError
        If an entry is wrong, or a number does not follow from the declarations. The message is
        part of a sentence.
    """
    if isinstance(entry, FormulaEntry):
        planned = plan_again(entry)
        return _as_written(planned if scale is None else scale(planned), entry)
    with named("design"):
        batch, declared = _declare([entry.variable], entry.intercept, entry.row_norm)
        plan = design.plan_matrix if entry.row_norm is None else design.plan_wide
        name, person = entry.variable.name, None
        if entry.person is not UNSET:
            person = Person(entry.person.column, entry.person.records_per_person)
            if person.column == name:
                raise ReleaseFileError("design.person takes another column than the response")
        return plan(name, batch, entry.matrix, declared, person)


def offset_of(entry: AnyDesign) -> float:
    """The largest size of an offset that an entry allows, or of the place of a class."""
    if isinstance(entry, FormulaEntry) and entry.response.kind == "classes":
        return float(len(entry.response.levels) - 1)
    if not isinstance(entry, FormulaEntry) or "offset" not in entry.formula:
        return 0.0
    return plan_again(entry).offset_bound


def touched_by(entry: AnyDesign) -> int:
    """How many fits neighbours may change at once, by the formula of an entry."""
    if not isinstance(entry, FormulaEntry) or "by(" not in entry.formula:
        return 1
    return plan_again(entry).touched


def prior_limits(entry: AnyDesign) -> dict[str, float]:
    """The limits of a prior that the declarations of an entry give, as in a `Problem`."""
    if not isinstance(entry, FormulaEntry) or entry.prior is UNSET:
        return {}
    is_standard = entry.standard is not UNSET
    held = design.most_stiffness(plan_again(entry), standardised=is_standard)
    return {"centre": design.LONGEST_MARGIN / entry.radius, "stiffness": held}


def plan_again(entry: FormulaEntry) -> DesignSpec:
    """The design of an entry, planned again as for a fit."""
    row_norm = entry.bound if entry.bound_source == "row_norm" else None
    apart = entry.unbounded_norm is not UNSET
    norm: Any = entry.unbounded_norm if apart else row_norm
    try:
        with named("design"):
            names = dict.fromkeys(t.text for t in read_tokens(entry.formula) if t.is_name)
            formula = parse_formula(entry.formula, list(names))
            if list(formula.variables) != [variable.name for variable in entry.variables]:
                raise ReleaseFileError(
                    "design.variables are not the columns that the formula reads"
                )
            batch, declared = _declare(entry.variables, entry.intercept, norm)
            variables = design.describe_variables(batch, formula.variables, declared)
            widths = [design.plan_factor(e, variables).width for e in formula.factors]
            given = len(entry.columns)
            small = len(formula.terms) <= given <= MOST_COLUMNS
            if not small or least_columns(formula.terms, widths) > given:
                raise ReleaseFileError(
                    "design.columns takes the columns of the formula, at most "
                    f"{MOST_COLUMNS}, not {given}"
                )
            planned = design.plan_design(formula, batch, declared)
            if entry.response.kind == "classes":
                planned = design.with_classes(planned)
            if entry.prior is not UNSET:
                sds = {} if entry.prior.sds is UNSET else entry.prior.sds
                if not sds.keys() <= entry.prior.means.keys():
                    raise ReleaseFileError("design.prior.sds takes names that means has")
                made = entry.prior.means, entry.prior.source, sds, entry.prior.uncovered is True
                prior = design.Prior(*made)
                planned = replace(planned, prior=prior.for_plan(planned, only_shared=False))
            if entry.paid is not UNSET:
                planned = replace(planned, paid=_payments(entry))
            if entry.width is not UNSET:
                planned = replace(planned, width=entry.width)
            # rows are standardised later, as their length follows from the moments in the file
            return planned if apart or entry.standard is not UNSET else planned.as_whole_rows()
    except PrivateLRError:
        raise
    except Exception:  # formulaic and ast may raise any error about a text from a stranger
        raise ReleaseFileError("design: the formula and the variables do not fit") from None


def _payments(entry: FormulaEntry) -> tuple[Payment, ...]:
    """What was paid for declarations of an entry, of which each has a variable of the formula."""
    assert entry.paid is not UNSET
    used, found = {variable.name for variable in entry.variables}, []
    for place, one in enumerate(entry.paid):
        at = f"design.paid[{place}]"
        if not used.intersection(one.columns):
            raise ReleaseFileError(f"{at}.columns takes one of the variables")
        guarantee = restore_guarantee(one.guarantee, f"{at}.guarantee")
        found.append(Payment(one.kind, tuple(one.columns), one.n, guarantee, one.identifier))
    return tuple(found)


def _declare(
    entries: Sequence[VariableEntry], intercept: float | None, row_norm: float | None
) -> tuple[Batch, Any]:
    """A batch without rows whose columns have the types of these variables, and their schema."""
    columns, bounds, levels = {}, {}, {}
    for entry in entries:
        low, high = entry.bounds or (-math.inf, math.inf)
        variable = Variable(entry.name, entry.kind, (low, high), tuple(entry.levels), entry.content)
        dtype: Any = _DTYPES[variable.content]
        if variable.kind == "logical":
            dtype = "bool"
        elif variable.kind == "categorical" and len(variable.levels) > 1:
            levels[variable.name] = variable.levels
        elif variable.kind == "categorical":  # a single level comes from the type of the column
            dtype = pd.CategoricalDtype(list(variable.levels))
        elif variable.kind == "numeric" and variable.is_bounded:
            bounds[variable.name] = variable.bounds
        columns[variable.name] = pd.Series([], dtype=dtype)
    scale: dict[str, Any] = {} if intercept is None else {"intercept_scale": intercept}
    declared = declare_schema(bounds=bounds, levels=levels, row_norm=row_norm, **scale)
    return as_batch(pd.DataFrame(columns)), declared


def _as_written(spec: DesignSpec, entry: FormulaEntry) -> DesignSpec:
    """The plan with the numbers of the file; these must agree with its own up to rounding."""
    columns = spec.columns
    if len(entry.columns) != len(columns.names):
        raise ReleaseFileError(f"design.columns takes {len(columns.names)} columns")
    if len(entry.factors) != len(spec.factors):
        raise ReleaseFileError("design.factors are not the factors of the formula")
    centre = np.array([column.centre for column in entry.columns], dtype=np.float64)
    scale = np.array([column.scale for column in entry.columns], dtype=np.float64)
    slack = CLOSE * np.maximum(columns.scale, np.abs(columns.centre))
    parents = [-1 if column.parent is None else column.parent for column in entry.columns]
    if parents != columns.parent.tolist():
        raise ReleaseFileError("design.columns has a parent that the formula does not give")
    if np.any(np.abs(centre - columns.centre) + np.abs(scale - columns.scale) > slack):
        raise ReleaseFileError("design.columns has a centre or a scale that its bounds do not give")
    require_same(entry.bound, spec.bound, "design.bound")
    factors = list(spec.factors)
    for index, (factor, item) in enumerate(zip(spec.factors, entry.factors, strict=True)):
        if item.range is None:
            continue  # if the plan has a range here, the comparison of the documents finds it
        low, high = item.range
        ends = np.array(factor.interval)
        slack = CLOSE * np.max(np.abs(ends))
        known = not factor.is_categorical and np.isfinite(slack)
        if not known or np.any(np.abs(np.subtract(item.range, ends)) > slack):
            raise ReleaseFileError(
                f"design.factors[{index}].range is not what the bounds of its variables give"
            )
        factors[index] = replace(factor, interval=(low, high))
    rows, p = entry.projection, spec.p
    if rows is not None:
        widths = {len(row) for row in rows}
        if len(rows) != p or len(widths) != 1 or max(widths) > p:
            raise ReleaseFileError(f"design.projection takes {p} rows of 1 to {p} numbers")
    return replace(
        spec,
        factors=tuple(factors),
        columns=replace(columns, centre=centre, scale=scale),
        bound=entry.bound,
        projection=None if rows is None else np.array(rows, dtype=np.float64),
    )


# -- limits of a formula -----------------------------------------------------------------------


def read_tokens(text: str) -> list[Token]:
    """The tokens of a formula; raises an error if it is too long, too deep, or too large."""
    if len(text) > LONGEST_FORMULA:
        raise ReleaseFileError(f"design.formula has more than {LONGEST_FORMULA} characters")
    tokens = tokenize(text)
    depth = deepest = 0
    for token in tokens:
        depth += token.is_operator(*OPENING) - token.is_operator(*CLOSING)
        deepest = max(deepest, depth)
    if deepest > DEEPEST_BRACKETS:
        raise ReleaseFileError(f"design.formula nests more than {DEEPEST_BRACKETS} brackets")
    tildes = [index for index, token in enumerate(tokens) if token.is_operator("~")]
    right = tokens[tildes[0] + 1 :] if tildes else tokens
    if Token("name", ".") in right:  # a saved formula has no dot, because it is expanded
        raise ReleaseFileError("design.formula has a dot that stands for other columns")
    if expansion_work(right) > MOST_WORK:
        raise ReleaseFileError("design.formula asks for more terms than a release can have")
    return tokens


def expansion_work(tokens: Sequence[Token]) -> float:
    """An upper bound on the number of steps that the expansion of a right-hand side takes.

    It counts the terms that formulaic would make of each operator if all terms were different. An
    operator ``:`` has the precedence of ``*`` here, which gives no smaller number.
    """
    values: list[float] = []
    waiting: list[str] = []
    work = 0.0

    def reduce(binding: int) -> None:
        nonlocal work
        while waiting and waiting[-1] != "(" and _BINDING[waiting[-1]] >= binding:
            operator = waiting.pop()
            if len(values) < 2:  # the operator is a sign
                continue
            right, left = values.pop(), values.pop()
            match operator:
                case "+" | "-":
                    size = left + right
                case "^" | "**":
                    size = math.exp(min(right * math.log(max(left, 1.0)), 100.0))
                case ":":
                    size = left * right
                case _:
                    size = left + right + left * right
            values.append(size)
            work += size if operator in "+-" else _PRODUCT * size

    index, power = 0, False
    while index < len(tokens):
        token = tokens[index]
        after = index + 1
        if token.is_name or token.is_operator("{"):
            opens = after if token.is_name else index
            if opens < len(tokens) and tokens[opens].is_operator("(", "{"):
                after = closing_index(tokens, opens) + 1
            values.append(1.0)
        elif token.kind == "number":
            small = power and token.text.isdecimal() and len(token.text) < 3
            values.append(float(token.text) if small else 1.0)
        elif token.is_operator("("):
            waiting.append("(")
        elif token.is_operator(")"):
            reduce(0)
            if waiting:
                waiting.pop()
        elif token.text in _BINDING:
            reduce(_BINDING[token.text])
            waiting.append(token.text)
        power = token.is_operator(*_POWERS)
        index = after
    reduce(0)
    return work


def least_columns(terms: Sequence[tuple[int, ...]], levels: Sequence[int]) -> float:
    """The rank of a design, a lower bound on its number of columns; infinite if it is too large.

    For each subset of its categorical factors, a term spans one column for every combination of
    their levels except the first. Columns that an earlier term spans are not counted again.
    """
    spanned: set[tuple[frozenset[int], int]] = set()
    rank = 0
    for used in terms:
        numeric = frozenset(i for i in used if levels[i] == 0)
        whole = sum(1 << i for i in used if levels[i] > 0)
        if math.prod(levels[i] for i in used if levels[i] > 0) > MOST_COLUMNS:
            return math.inf
        subset = whole
        while True:
            if (numeric, subset) not in spanned:
                spanned.add((numeric, subset))
                rank += math.prod(levels[i] - 1 for i in used if subset >> i & 1)
            if subset == 0:
                break
            subset = (subset - 1) & whole
        if rank > MOST_COLUMNS:
            return math.inf
    return rank
