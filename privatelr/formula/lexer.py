"""The tokens of R's formula dialect, and their canonical spelling.

R names may hold dots (``Sepal.Length``), names in backticks may hold anything, ``^`` is a
power and ``%in%`` an operator. Everything later works on these tokens, so that no rewriting
ever touches the inside of a string or of a quoted name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from privatelr.errors import FormulaError

TokenKind = Literal["name", "quoted", "number", "text", "operator"]

_PATTERN = re.compile(
    r"""(?P<space>\s+)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<quoted>`[^`]+`)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?L?)
      | (?P<name>[^\W\d]|[.](?!\d))(?:[\w.])*
      | (?P<operator>%in%|%%|%/%|\*\*|<=|>=|==|!=|&&|\|\||[-+*/^:<>!&|~(){}\[\],=])
    """,
    re.VERBOSE,
)
WORDS = frozenset({"and", "or", "not", "in"})
CONSTANTS = {"TRUE": "True", "FALSE": "False", "True": "True", "False": "False"}
RESERVED = WORDS | CONSTANTS.keys()
"""Words that mean something inside an expression, so that a column needs backticks for them."""
_TIGHT = {"^", "**", "/", ":", "!"}
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Token:
    """One lexical unit; `text` is as written, without the backticks of a quoted name."""

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
        kind = match.lastgroup
        if kind == "quoted":
            tokens.append(Token("quoted", match.group()[1:-1]))
        elif kind in ("name", "number", "text", "operator"):
            tokens.append(Token(kind, match.group()))  # type: ignore[arg-type]
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
        word = _quoted(token.text) if token.kind == "quoted" else token.text
        if before is not None and token.kind != "operator" and before.kind != "operator":
            word = f" {word}"  # two words that nothing joins are an error to be shown as it is
        if token.is_operator(","):
            parts.append(", ")
        elif token.kind != "operator" or token.text in OPENING | CLOSING | _TIGHT or unary:
            parts.append(word)
        else:
            parts.append(f" {word} ")
    return "".join(parts)


def _quoted(name: str) -> str:
    plain = re.fullmatch(r"[^\W\d][\w.]*", name) and name not in RESERVED
    return name if plain else f"`{name}`"
