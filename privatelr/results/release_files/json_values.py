"""Values of a release file: strict JSON, its entries, and their comparison.

The messages of errors are parts of a sentence; `release_file` puts the name of the file before
them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import msgspec

from privatelr.errors import PrivateLRError, ReleaseFileError, show
from privatelr.page_model import on_one_line

LARGEST_FILE = 2**25
"""A file has at most this number of bytes; a fit with a thousand columns needs a hundredth of
them, or up to two thirds with inference."""
LONGEST_WHOLE = 18
"""An integer has at most this number of characters."""
CLOSE = 1e-9
"""Two numbers with at most this relative difference count as the same, where they may differ."""
_ROUNDED = ("derived", "events")
"""Entries of these names follow from others, and another machine may round them otherwise."""


def parse(data: bytes) -> Any:
    """The JSON value of a file; raises an error for double keys and NaN."""
    if len(data) > LARGEST_FILE:
        raise ReleaseFileError(f"a release has at most {LARGEST_FILE} bytes")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_distinct,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_no_constant,
        )
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise ReleaseFileError("the file is not text in UTF-8") from None
    except UnicodeEncodeError:
        raise ReleaseFileError("a text of the file holds half a character") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ReleaseFileError(f"the file is not JSON, or was cut off ({where})") from None
    except RecursionError:
        raise ReleaseFileError("the file nests too many levels deep") from None
    return value


def canonical(value: Any) -> bytes:
    """The canonical JSON of a value: sorted keys, no white space, ASCII, shortest exact numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def spell_json(value: Any, indent: str = "") -> str:
    """JSON with one entry per line, and with lists of plain values on one line."""
    inner, plainly = f"{indent}  ", json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    if isinstance(value, dict) and value:
        items = [f"{inner}{plainly(key)}: {spell_json(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = [f"{inner}{spell_json(item, inner)}" for item in value]
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    return plainly(value)


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


# -- entries ---------------------------------------------------------------------------------


def require_version(value: dict[str, Any], known: int) -> None:
    """Refuse a file of another version of its format."""
    version = value.get("version")
    if type(version) is not int or version != known:
        raise ReleaseFileError(
            f"the file has version {show(version)} of its format, and this privatelr reads version "
            f"{known} alone: read it with the privatelr that wrote it, or fit again"
        )


def read_entry(value: Any, kind: Any, where: str = "") -> Any:
    """A value as an entry of class `kind`; an error says what is wrong and where."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `")
        place = f"{where}{path.rstrip('`').removeprefix('$')}".removeprefix(".") or "the file"
        raise ReleaseFileError(f"{place}: {on_one_line(said[:300])}") from None  # it quotes a file


@contextmanager
def named(where: str) -> Iterator[None]:
    """Turn errors of this package within the block into errors about an entry of a file."""
    try:
        yield
    except ReleaseFileError:
        raise
    except PrivateLRError as error:
        raise ReleaseFileError(f"{where}: {str(error).removesuffix('.')}") from None


def _shown(value: Any) -> str:
    return "null" if value is None else show(value)


def require_same(
    given: Any, expected: Any, where: str, *, close: float = 0.0, size: float = 0.0
) -> None:
    """Raise an error if an entry differs from its expected value, or is further than rounding.

    Rounding is relative to the number itself, or to the largest one of its list (`size`), because
    the terms of a sum may cancel, and another machine may round it otherwise.
    """
    is_same = True
    if isinstance(given, dict) and isinstance(expected, dict) and given.keys() == expected.keys():
        for name, value in expected.items():
            bound = CLOSE if name in _ROUNDED else close
            require_same(given[name], value, f"{where}.{name}".removeprefix("."), close=bound)
    elif isinstance(given, list) and isinstance(expected, list) and len(given) == len(expected):
        size = max((abs(value) for value in expected if isinstance(value, float)), default=0.0)
        for index, (item, value) in enumerate(zip(given, expected, strict=True)):
            require_same(item, value, f"{where}[{index}]", close=close, size=size)
    elif isinstance(given, float) and isinstance(expected, float):
        is_same = abs(given - expected) <= close * max(size, abs(expected))
    else:
        is_same = type(given) is type(expected) and given == expected
    if not is_same:
        raise ReleaseFileError(
            f"{where} is {_shown(given)}, and the other entries give {_shown(expected)}"
        )
