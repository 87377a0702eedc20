"""Values of a release file: JSON that leaves no doubt, and a check for every kind of entry.

What is read may come from anyone. It is bounded in size and depth before anything is done with
it, every entry is checked for its type and its range, and an entry that nobody asked for is an
error. The errors are parts of a sentence; `release_file` puts the name of the file before them.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from privatelr.errors import ReleaseFileError, show

if TYPE_CHECKING:
    from collections.abc import Collection

    from privatelr.types import FloatArray

LARGEST_FILE = 2**25
"""Bytes; a fit with a thousand columns takes a hundredth of it, and with inference up to two
thirds."""
MOST_MARKS = {b":": 300_000, b"{": 150_000, b"[": 150_000, b'"': 3_000_000, b",": 3_500_000}
"""Largest counts of characters that cost memory when they are read, inside of texts too.

A design of 5,000 columns has 100,000 keys, each with a colon, in 30,000 objects and 25,000 lists.
A matrix of a million numbered columns has a name and two numbers for each.
"""
DEEPEST = 12
LONGEST_WHOLE = 18
"""Digits of a whole number."""
CLOSE = 1e-9
"""Relative difference up to which two computations of a number count as the same."""


def parse(data: bytes) -> Any:
    """The JSON value that a file holds; no key twice, no NaN, nothing huge, nothing deep."""
    if len(data) > LARGEST_FILE:
        raise ReleaseFileError(f"a release has at most {LARGEST_FILE} bytes")
    for mark, most in MOST_MARKS.items():
        if data.count(mark) > most:
            shown = mark.decode()
            raise ReleaseFileError(f"a release has the character {shown} {most} times at most")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_distinct,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
    except UnicodeDecodeError:
        raise ReleaseFileError("the file is not text in UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ReleaseFileError(f"the file is not JSON, or was cut off ({where})") from None
    except RecursionError:
        raise _too_deep() from None
    _require_shallow(value)
    return value


def canonical(value: Any) -> bytes:
    """The one spelling of a value: keys in order, no space, ASCII, shortest exact numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ReleaseFileError("an object of the file has the same key twice")
    return found


def _whole(text: str) -> int:
    if len(text) > LONGEST_WHOLE:
        raise ReleaseFileError(f"a whole number of the file has more than {LONGEST_WHOLE} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ReleaseFileError(f"the number {text[:30]} of the file is too large")
    return number


def _no_constant(text: str) -> NoReturn:
    raise ReleaseFileError(f"{text} in the file is not a number that JSON knows")


def _require_shallow(value: Any) -> None:
    """Refuse deep nesting, and text that no encoding can write."""
    level = [value]
    for _ in range(DEEPEST):
        children: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                children += item
                children += item.values()
            elif isinstance(item, list):
                children += item
            elif isinstance(item, str) and not item.isascii():
                _require_encodable(item)
        if not children:
            return
        level = children
    raise _too_deep()


def _require_encodable(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ReleaseFileError("a text of the file holds half a character") from None


def _too_deep() -> ReleaseFileError:
    return ReleaseFileError(f"the file nests more than {DEEPEST} levels deep")


# -- entries ---------------------------------------------------------------------------------


def refuse(where: str, takes: str, got: Any) -> NoReturn:
    """Raise the error for an entry."""
    raise ReleaseFileError(f"{where} takes {takes}, not {show(got)}")


def entries(value: Any, where: str, names: Collection[str]) -> dict[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        refuse(where, "an object", value)
    for name in names:
        if name not in value:
            raise ReleaseFileError(f"{where} has no entry {name!r}")
    for name in value:
        if name not in names:
            raise ReleaseFileError(
                f"{where} has an entry {show(name)} that this version does not know"
            )
    return value


def listing(value: Any, where: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        refuse(where, "a list", value)
    return value


def text(value: Any, where: str, longest: int = 1000) -> str:
    """A text of limited length."""
    if not isinstance(value, str) or len(value) > longest:
        refuse(where, f"a text of at most {longest} characters", value)
    return value


def choice(value: Any, where: str, choices: Collection[str]) -> str:
    """One of some words."""
    if not isinstance(value, str) or value not in choices:
        refuse(where, " or ".join(map(repr, choices)), value)
    return value


def number(
    value: Any, where: str, *, above: float = -math.inf, at_least: float = -math.inf
) -> float:
    """A finite number within limits, as a float."""
    if type(value) not in (int, float) or not value > above or not value >= at_least:
        limit = f" above {above:g}" if above > -math.inf else ""
        limit += f" from {at_least:g}" if at_least > -math.inf else ""
        refuse(where, f"a number{limit}", value)
    return float(value)


def whole(value: Any, where: str, least: int, most: int) -> int:
    """A whole number within limits."""
    if type(value) is not int or not least <= value <= most:
        refuse(where, f"a whole number from {least} to {most}", value)
    return value


def numbers(value: Any, where: str, count: int) -> FloatArray:
    """Finite numbers, this many, of shape ``(count,)``."""
    given = listing(value, where)
    if len(given) != count:
        raise ReleaseFileError(f"{where} takes {count} numbers, not {len(given)}")
    found = [number(item, f"{where}[{i}]") for i, item in enumerate(given)]
    return np.array(found, dtype=np.float64)


def _shown(value: Any) -> str:
    return "null" if value is None else show(value)


def require_same(given: Any, expected: Any, where: str) -> None:
    """Refuse an entry that differs from what follows from the others, rounding apart."""
    if isinstance(given, dict) and isinstance(expected, dict):
        entries(given, where, expected)
        for name, value in expected.items():
            require_same(given[name], value, f"{where}.{name}")
    elif isinstance(given, list) and isinstance(expected, list) and len(given) == len(expected):
        for index, (item, value) in enumerate(zip(given, expected, strict=True)):
            require_same(item, value, f"{where}[{index}]")
    elif type(given) is int and isinstance(expected, float):
        require_same(float(given), expected, where)
    elif type(given) is not type(expected) or not (
        math.isclose(given, expected, rel_tol=CLOSE)
        if isinstance(expected, float)
        else given == expected
    ):
        raise ReleaseFileError(
            f"{where} is {_shown(given)}, and the other entries give {_shown(expected)}"
        )
