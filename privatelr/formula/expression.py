"""Expressions inside a formula: parsed, and checked to work row by row.

An expression is a small Python syntax tree over column names, built from R tokens. It may
hold only what `privatelr.design.evaluation` can both evaluate and bound.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from privatelr.errors import FormulaError
from privatelr.formula.functions import ROW_FUNCTIONS, RowFunction, refuse_call, spell_contrast
from privatelr.formula.lexer import CLOSING, CONSTANTS, OPENING, WORDS, Token, spell

_TO_PYTHON = {"^": "**", "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}
_TO_PYTHON |= {"%in%": "in", "%%": "%", "%/%": "//", "{": "(", "}": ")"}
_BELOW_NOT = (",", "=", "&", "&&", "|", "||")
_SEPARATING = (",", "=", "<", "<=", ">", ">=", "==", "!=", "&", "&&", "|", "||", "!")
_LONGEST = 500
CODING_CALLS = frozenset({"C", "factor", "as.factor"})

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.FloorDiv)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression: `label` is its R spelling, `names` the columns it reads.

    `tree` holds placeholder identifiers; ``aliases[identifier]`` is the real name of the
    column or function.
    """

    label: str
    tree: ast.expr = field(compare=False)
    aliases: Mapping[str, str]
    names: tuple[str, ...]

    @property
    def title(self) -> str:
        """What a column of the design is called: a bare column as in the frame, else `label`."""
        node = self.tree
        return self.aliases[node.id] if isinstance(node, ast.Name) else self.label

    def bare(self) -> str | None:
        """The column's name if the expression is nothing but a column."""
        return _column(self, unwrap(self))


def parse_expression(tokens: Sequence[Token], term: str | None = None) -> Expression:
    """Read tokens as one expression and refuse whatever does not work row by row."""
    label = spell(tokens)
    if len(tokens) > _LONGEST:
        raise FormulaError(
            f"formula: an expression takes at most {_LONGEST} words, not {len(tokens)}."
        )
    source, aliases, called = _to_python(_bracket_specials(_bracket_negations(tokens)))
    try:
        tree = ast.parse(source or "()", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f"formula: cannot read the expression {label[:60]!r}.") from None
    names = tuple(dict.fromkeys(name for key, name in aliases.items() if key not in called))
    expression = Expression(label, tree, aliases, names)
    _check(expression, unwrap(expression), term or label)
    return expression


def _to_python(tokens: Sequence[Token]) -> tuple[str, dict[str, str], set[str]]:
    """Python source with placeholders for names, what they stand for, and which are no columns."""
    aliases: dict[str, str] = {}
    called: set[str] = set()
    coding = bool(tokens) and tokens[0].text in CODING_CALLS
    words = []
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else Token("operator", "")
        if token.kind == "name" and (following.is_operator("=") or token.text in WORDS):
            words.append(token.text)
        elif token.kind == "name" and token.text in CONSTANTS and not following.is_operator("("):
            words.append(CONSTANTS[token.text])
        elif token.is_name:
            identifier = f"v{len(aliases)}_"
            aliases[identifier] = token.text
            words.append(identifier)
            if following.is_operator("(") or (coding and token.text.startswith("contr.")):
                called.add(identifier)
        elif token.kind == "number":
            words.append(token.text.rstrip("L"))
        else:
            words.append(_TO_PYTHON.get(token.text, token.text))
    return " ".join(words), aliases, called


def _bracket_negations(tokens: Sequence[Token]) -> list[Token]:
    """Put brackets around ``!a``: R takes it as an operand of any operator, Python does not.

    As in R it reaches up to the next operator that binds less: ``a * !b + c`` is ``a * !(b + c)``.
    """
    opening, closing = Token("operator", "("), Token("operator", ")")
    bracketed: list[Token] = []
    to_close = [0]  # negations that are open, for each bracket around the token
    for token in tokens:
        if token.is_operator(*CLOSING, *_BELOW_NOT):
            bracketed += to_close[-1] * [closing]
            to_close[-1] = 0
        if token.is_operator(*CLOSING) and len(to_close) > 1:
            to_close.pop()
        elif token.is_operator(*OPENING):
            to_close.append(0)
        elif token.is_operator("!"):
            bracketed.append(opening)
            to_close[-1] += 1
        bracketed.append(token)
    return bracketed + to_close[-1] * [closing]


def _bracket_specials(tokens: Sequence[Token]) -> list[Token]:
    """Put brackets around ``a %% b``: R binds ``%any%`` tighter than ``*``, Python does not."""
    bracketed: list[Token] = []
    starts, special = [0], [False]

    def close() -> None:
        if special[-1]:
            bracketed.insert(starts[-1], Token("operator", "("))
            bracketed.append(Token("operator", ")"))
        starts[-1], special[-1] = len(bracketed), False

    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else Token("operator", "(")
        binary = before.kind != "operator" or before.is_operator(*CLOSING)
        if token.is_operator(*_SEPARATING) or (binary and token.is_operator("*", "/", "+", "-")):
            close()
            bracketed.append(token)
            starts[-1] = len(bracketed)
        elif token.is_operator(*OPENING):
            bracketed.append(token)
            starts.append(len(bracketed))
            special.append(False)
        elif token.is_operator(*CLOSING) and len(starts) > 1:
            close()
            starts.pop()
            special.pop()
            bracketed.append(token)
        else:
            special[-1] |= token.kind == "operator" and token.text.startswith("%")
            bracketed.append(token)
    close()
    return bracketed


def unwrap(expression: Expression) -> ast.expr:
    """Return the tree inside any outer ``I(...)``, which does not change the value."""
    node = expression.tree
    while isinstance(node, ast.Call) and _function(expression, node) == "I" and len(node.args) == 1:
        node = node.args[0]
    return node


def coding_call(expression: Expression) -> ast.Call | None:
    """The ``C(...)``, ``factor(...)`` or ``as.factor(...)`` that the expression is, if any."""
    node = unwrap(expression)
    is_coding = isinstance(node, ast.Call) and _function(expression, node) in CODING_CALLS
    return cast("ast.Call", node) if is_coding else None


def core(expression: Expression) -> ast.expr:
    """Return what a coding call codes, or else the expression without outer ``I(...)``."""
    coded = coding_call(expression)
    return coded.args[0] if coded is not None else unwrap(expression)


def coded_column(expression: Expression) -> str | None:
    """The column that the expression is or codes, as ``x`` in ``x``, ``I(x)`` and ``factor(x)``."""
    return _column(expression, core(expression))


def _column(expression: Expression, node: ast.expr) -> str | None:
    return expression.aliases[node.id] if isinstance(node, ast.Name) else None


def coded_levels(expression: Expression) -> tuple[Any, ...]:
    """Levels written into the formula, as in ``factor(x, levels = c('a', 'b'))``."""
    coded = coding_call(expression)
    if coded is None:
        return ()
    keywords = {keyword.arg: keyword.value for keyword in coded.keywords}
    if keywords.keys() - {"levels"} or len(coded.args) > 2:
        raise FormulaError(
            f"formula: {expression.label!r} takes levels = c(...) and no other keyword."
        )
    listed = [node for node in coded.args[1:] if _items(expression, node) is not None]
    listed += [keywords["levels"]] if "levels" in keywords else []
    return tuple(literal_values(expression, listed[0], expression.label)) if listed else ()


def coded_contrast(expression: Expression) -> str | None:
    """The contrast written into the formula, as formulaic spells it, such as ``contr.sum``."""
    coded = coding_call(expression)
    nodes = [n for n in coded.args[1:] if _items(expression, n) is None] if coded else []
    if not nodes:
        return None
    text = spell_contrast(nodes[0], expression.aliases)
    if text is None:
        raise FormulaError(
            f"formula: {expression.label!r} takes a contrast such as contr.sum, "
            "contr.treatment('b') or Treatment('b') after the column, with constants only."
        )
    return text


def _items(expression: Expression, node: ast.expr) -> list[ast.expr] | None:
    """What ``c(...)``, ``[...]`` or ``(..., ...)`` lists; None for anything else."""
    if isinstance(node, ast.Call) and _function(expression, node) == "c":
        return node.args
    return node.elts if isinstance(node, ast.List | ast.Tuple) else None


def is_logical(expression: Expression) -> bool:
    """Whether the value is true or false, by the form of the expression."""
    node = core(expression)
    negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return isinstance(node, ast.Compare | ast.BoolOp) or negation


def _function(expression: Expression, node: ast.Call) -> str:
    name = expression.aliases.get(node.func.id, "") if isinstance(node.func, ast.Name) else ""
    return name.removeprefix("np.").removeprefix("numpy.")


def row_function(expression: Expression, node: ast.Call) -> RowFunction | None:
    """The table entry that the call names, if it is called with the right arguments."""
    function = ROW_FUNCTIONS.get(_function(expression, node))
    fits = function is not None and len(node.args) == function.arity and not node.keywords
    return function if fits else None


def _check(expression: Expression, node: ast.expr, term: str) -> None:
    """Refuse every node that neither interpreter knows."""
    match node:
        case ast.Name():
            return
        case ast.Constant():
            _require_number(node.value, term)
            return
        case ast.BinOp(op=op) if isinstance(op, _ARITHMETIC):
            children = [node.left, node.right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()):
            children = [node.operand]
        case ast.BoolOp():
            children = node.values
        case ast.Compare(ops=[ast.In()], comparators=[right]):
            literal_values(expression, right, term)
            children = [node.left]
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            children = [side for side in (node.left, right) if not _is_text(side)]
        case ast.Compare(ops=[op], comparators=[right]) if isinstance(op, _COMPARISONS):
            children = [node.left, right]
        case ast.Call() if _function(expression, node) == "I" and len(node.args) == 1:
            children = list(node.args)
        case ast.Call() if _function(expression, node) in CODING_CALLS and node.args:
            children = node.args[:1]
        case ast.Call() if row_function(expression, node) is not None:
            children = list(node.args)
        case ast.Call() if _function(expression, node) in ROW_FUNCTIONS:
            name, given = _function(expression, node), len(node.args) + len(node.keywords)
            raise FormulaError(
                f"formula: {term!r} calls {name} with {given} arguments; here it takes "
                f"{ROW_FUNCTIONS[name].arity}, without keywords."
            )
        case ast.Call():
            variable = next(iter(expression.names), "x")
            raise refuse_call(_function(expression, node) or expression.label, term, variable)
        case _:
            raise FormulaError(
                f"formula: {term!r} holds something other than columns, constants, arithmetic, "
                "comparisons and row-wise functions."
            )
    for child in children:
        _check(expression, child, term)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _require_number(value: object, term: str) -> None:
    try:
        finite = isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise FormulaError(
            f"formula: {term!r} computes with {str(value)[:20]!r}, which is not a finite number; "
            "a text goes into a comparison, as in x == 'a'."
        )


def literal_values(expression: Expression, node: ast.expr, term: str) -> list[Any]:
    """The constants of ``c('a', 'b')`` or ``['a', 'b']``, or one constant by itself."""
    items = _items(expression, node)
    try:
        return [ast.literal_eval(item) for item in ([node] if items is None else items)]
    except ValueError:
        raise FormulaError(f"formula: {term!r} needs constants, as in c('a', 'b').") from None
