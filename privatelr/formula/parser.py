"""R's formula dialect: its tokens, their canonical spelling, and trees by precedence.

R names may contain dots (``Sepal.Length``), names in backticks may contain anything, ``^`` is a
power and ``%in%`` an operator; ``splines::bs`` is ``bs``. All later steps work on these tokens, so
no rewriting touches the inside of a string or of a quoted name.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from privatelr.errors import FormulaError
from privatelr.formula.functions import COMPARISONS, INFIX, PREFIX, SAME

TokenKind = Literal["name", "quoted", "number", "text", "operator"]

_PATTERN = re.compile(
    r"""(?P<space>\s+|(?:base|splines|stats)::(?=[^\W\d]))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<quoted>`[^`]+`)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?L?)
      | (?P<name>[^\W\d]|[.](?!\d))(?:[\w.])*
      | (?P<operator>%in%|%%|%/%|\*\*|<=|>=|==|!=|&&|\|\||[-+*/^:<>!&|~()\[\],=])
    """,
    re.VERBOSE,
)
WORDS = frozenset({"and", "or", "not", "in"})
CONSTANTS = {"TRUE": True, "FALSE": False, "True": True, "False": False}
RESERVED = WORDS | CONSTANTS.keys()
"""Words that have a meaning inside an expression; a column of such a name needs backticks."""
_TIGHT = {"^", "**", "/", ":", "!"}
_BRACKETS = {"(": ")", "[": "]"}
OPENING, CLOSING = frozenset(_BRACKETS), frozenset(_BRACKETS.values())
_DEEPEST = 200
"""Greatest depth of nested expressions; a deeper one could exhaust Python's stack."""
_COMPARING = COMPARISONS["=="].binding


class Token(NamedTuple):
    """One lexical unit; `text` is its spelling, without the backticks of a quoted name."""

    kind: TokenKind
    text: str

    def is_operator(self, *texts: str) -> bool:
        return self.kind == "operator" and self.text in texts

    @property
    def is_name(self) -> bool:
        return self.kind in ("name", "quoted")


def tokenize(formula: str) -> list[Token]:
    """Split a formula into tokens; raises `FormulaError` at the first stray character."""
    tokens: list[Token] = []
    position = 0
    while position < len(formula):
        match = _PATTERN.match(formula, position)
        if match is None:
            raise FormulaError(
                f"formula {formula!r}: cannot read {formula[position]!r} "
                f"at character {position + 1}; names with unusual characters go in backticks."
            )
        kind, word = match.lastgroup, match[0]
        if kind != "space":
            tokens.append(Token(kind, word[1:-1] if kind == "quoted" else word))  # type: ignore[arg-type]
        position = match.end()
    return tokens


def closing_index(tokens: Sequence[Token], opening: int) -> int:
    """Index of the bracket that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        token = tokens[index]
        depth += token.is_operator(*OPENING) - token.is_operator(*CLOSING)
        if depth == 0:
            return index
    raise FormulaError(f"formula: {spell(tokens)!r} opens a bracket that it does not close.")


def spell(tokens: Sequence[Token]) -> str:
    """Write tokens the way R deparses them: ``I((x - 1)/2)``, ``log(a) + b``."""
    parts: list[str] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        unary = before is None or (before.kind == "operator" and before.text not in CLOSING)
        word = token.text
        plain = re.fullmatch(r"[^\W\d][\w.]*", word) and word not in RESERVED
        if token.kind == "quoted" and not plain:
            word = f"`{word}`"
        if before is not None and token.kind != "operator" and before.kind != "operator":
            word = f" {word}"  # two adjacent words are an error, which is shown as written
        if token.is_operator(","):
            parts.append(", ")
        elif token.kind != "operator" or token.text in OPENING | CLOSING | _TIGHT or unary:
            parts.append(word)
        else:
            parts.append(f" {word} ")
    return "".join(parts)


class Node(NamedTuple):
    """A part of an expression: its kind, its name and its arguments.

    Attributes
    ----------
    name : str
        Name of a column, an operator or a function; the bracket of a list.
    value
        Value of a constant.
    """

    kind: Literal["column", "constant", "prefix", "infix", "call", "list"]
    name: str = ""
    args: tuple[Node, ...] = ()
    keywords: Mapping[str, Node] = {}
    value: Any = None


def parse(tokens: Sequence[Token]) -> Node:
    """Parse tokens by precedence; raises SyntaxError or ValueError if they do not parse."""
    waiting = deque([*tokens, Token("operator", "")])
    tree = _read(waiting, 0, 0)
    if len(waiting) != 1:
        raise SyntaxError
    return tree


def _read(waiting: deque[Token], least: int, depth: int) -> Node:
    """Read the longest leading expression whose operators have a binding of `least` or more."""
    if depth > _DEEPEST:
        raise SyntaxError
    token = waiting.popleft()
    name = SAME.get(token.text, token.text)
    node: Node
    if token.kind in ("number", "text"):
        node = Node("constant", value=ast.literal_eval(name.rstrip("L")))
    elif token.kind != "quoted" and name in PREFIX:
        node = Node("prefix", name, (_read(waiting, PREFIX[name].binding, depth + 1),))
    elif token.is_operator(*OPENING):
        listed, keywords = _arguments(waiting, _BRACKETS[name], depth)
        if keywords:
            raise SyntaxError
        alone = len(listed) == 1 and name != "["
        node = listed[0] if alone else Node("list", name, listed)
    elif not token.is_name or (token.kind == "name" and name in {*WORDS, *INFIX}):
        raise SyntaxError
    elif waiting[0].is_operator("("):
        waiting.popleft()
        called = token.text.removeprefix("np.").removeprefix("numpy.")
        node = Node("call", called, *_arguments(waiting, ")", depth))
    elif token.kind == "name" and name in CONSTANTS:
        node = Node("constant", value=CONSTANTS[name])
    else:
        node = Node("column", token.text)
    compared = False
    while waiting[0].kind in ("operator", "name"):
        following = waiting[0].text
        name = SAME.get(following, following)
        if following in ("(", "["):  # a call or an index of something that is not a function
            waiting.popleft()
            listed, _ = _arguments(waiting, _BRACKETS[following], depth)
            node = Node("call" if following == "(" else "list", "", (node, *listed))
            continue
        if name not in INFIX or INFIX[name].binding < least:
            break
        binding = INFIX[name].binding
        waiting.popleft()
        right = _read(waiting, binding if name == "^" else binding + 1, depth + 1)
        again = compared and binding == _COMPARING  # R does not compare a comparison either
        node = Node("list" if again else "infix", name, (node, right))
        compared = binding == _COMPARING
    return node


def _arguments(
    waiting: deque[Token], closing: str, depth: int
) -> tuple[tuple[Node, ...], dict[str, Node]]:
    """Read the arguments between brackets, by position and by keyword."""
    listed: list[Node] = []
    keywords: dict[str, Node] = {}
    while not waiting[0].is_operator(closing):
        if waiting[0].kind == "name" and waiting[1].is_operator("="):
            name = waiting.popleft().text
            waiting.popleft()
            if name in keywords:
                raise SyntaxError
            keywords[name] = _read(waiting, 0, depth + 1)
        else:
            listed.append(_read(waiting, 0, depth + 1))
        if not waiting[0].is_operator(closing) and not waiting.popleft().is_operator(","):
            raise SyntaxError
    waiting.popleft()
    return tuple(listed), keywords
