"""R's formula dialect: text becomes terms and expressions that work row by row."""

from privatelr.formula.algebra import Formula, parse_formula
from privatelr.formula.expression import (
    Expression,
    answers_within,
    constants,
    evaluate,
    interval,
    is_truth,
    linear,
    number_list,
    parse_expression,
)
from privatelr.formula.functions import (
    EVERYTHING,
    MEMBERSHIPS,
    ROW_FUNCTIONS,
    Interval,
    RowFunction,
    contrasts_of,
    product_range,
    require_base,
)
from privatelr.formula.parser import (
    RESERVED,
    Node,
    Token,
    closing_index,
    parse,
    spell,
    tokenize,
)
from privatelr.formula.record_terms import (
    MOST_RECORDS,
    By,
    Person,
    at_level_text,
    require_most,
    spell_person,
    with_terms,
)
from privatelr.formula.shorthands import is_unnamed
