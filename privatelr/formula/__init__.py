"""R's formula dialect: text becomes terms and expressions that work row by row."""

from privatelr.formula.algebra import Formula, parse_formula
from privatelr.formula.expression import (
    Expression,
    coded_column,
    coded_contrast,
    coded_levels,
    coding_call,
    core,
    is_logical,
    literal_values,
    parse_expression,
    row_function,
    unwrap,
)
from privatelr.formula.functions import (
    EVERYTHING,
    ROW_FUNCTIONS,
    Interval,
    RowFunction,
    contrasts_of,
    product_range,
    require_base,
)
from privatelr.formula.lexer import (
    CLOSING,
    OPENING,
    RESERVED,
    Token,
    closing_index,
    spell,
    tokenize,
)
