"""Declarations that were released privately: mappings that a fit takes as they are."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, cast

from privatelr.arguments import suggests_arguments
from privatelr.errors import listed
from privatelr.mechanisms.level_selection import LevelCalibration
from privatelr.mechanisms.range_selection import RangeCalibration
from privatelr.page_model import FactList, Heading, Piece, Table
from privatelr.privacy import REPLACE_PERSON, Guarantee, Neighbours
from privatelr.privacy.accounting import Entry
from privatelr.results.answers.paid_answer import PaidAnswer
from privatelr.results.pages.sentences import neighbours
from privatelr.sources import PaidFor, Payment, draw_identifier

Range = tuple[float, float]
Declared = TypeVar("Declared")
_ADDS_UP = "What a fit with it costs is added to this price."


@suggests_arguments
class ReleasedDeclaration(PaidAnswer, Mapping[str, Declared]):
    """A mapping from columns to what was released of them, which prints with its price."""

    __slots__ = ()

    kind: ClassVar[Literal["bounds", "levels"]]
    guarantee: Guarantee
    identifier: str

    @property
    @abstractmethod
    def declared(self) -> Mapping[str, tuple[Any, ...]]:
        """What was released of each column, as plain values."""

    @property
    def payment(self) -> Payment:
        """What a fit that uses any of it says of its price."""
        columns = tuple(self.declared)
        return Payment(self.kind, columns, self.nobs, self.guarantee, self.identifier)

    def to_toml(self) -> str:
        """What was released, as a schema file, which `load_schema` and ``--schema`` read."""
        declared: Any = {self.kind: self}
        return schema_text(**declared)

    def __getitem__(self, name: str) -> Declared:
        return cast("Declared", PaidFor.by(self.payment, self.declared[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.declared)

    def __len__(self) -> int:
        return len(self.declared)

    def changed(self, name: str, values: Iterable[Any]) -> tuple[Any, ...]:
        """Values of one's own for a column, which carry the price of this release.

        Whatever is made by a look at it, such as ``levels.changed("job", ["worker", "clerk"])`` or
        ``bounds.changed("age", (0, bounds["age"][1]))``, was paid for, and a plain copy hides that.

        Raises
        ------
        KeyError
            If nothing was released of the column.
        """
        if name not in self:
            raise KeyError(f"{name!r} is not a column of this release, which has {listed(self)}.")
        return PaidFor.by(self.payment, values)

    def __or__(self, others: Mapping[str, Any]) -> dict[str, Any]:
        """Join other declarations, which take precedence, as in a dict."""
        return {**self, **others} if isinstance(others, Mapping) else NotImplemented

    def __ror__(self, others: Mapping[str, Any]) -> dict[str, Any]:
        return {**others, **self} if isinstance(others, Mapping) else NotImplemented

    def __repr__(self) -> str:
        return self.as_text()


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SuggestedBounds(ReleasedDeclaration[Range]):
    """Ranges of columns that were chosen privately; a mapping that fits into ``bounds=``.

    Attributes
    ----------
    ranges : dict
        The suggested ``(lo, hi)`` of each column, both of them readable numbers.
    outer : dict
        The declared range of each column.
    calibration : RangeCalibration
        All numbers of the choices; they are public.
    guarantee : Guarantee
        The guarantee of all ranges together.
    entry : Entry or None
        The entry that a ledger was charged with.
    identifier : str
        Drawn at release, and kept in the file, by which a fit tells one release from two.
    payment : Payment
        What a fit that uses any of it says of its price.

    Examples
    --------
    >>> from privatelr import load_dataset, suggest_bounds
    >>> suggested = suggest_bounds(load_dataset("anes96"), {"age": (0, 150)}, eps=1.0)
    >>> low, high = suggested["age"]  # a mapping from columns to bounds
    >>> 0 <= low < high <= 150, suggested.outer
    (True, {'age': (0.0, 150.0)})
    """

    ranges: Mapping[str, Range]
    outer: Mapping[str, Range]
    calibration: RangeCalibration
    guarantee: Guarantee
    entry: Entry | None = None
    identifier: str = field(default_factory=draw_identifier)
    kind = "bounds"

    @property
    def declared(self) -> Mapping[str, Range]:
        """The suggested ranges, as plain values."""
        return self.ranges

    @property
    def nobs(self) -> int:
        """Number of records, or of persons; it is public."""
        return self.calibration.n

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        made = self.calibration
        of = f"each of {len(self)} columns" if len(self) > 1 else "one column"
        quantiles = f"a private quantile near either end of {of}"
        about = made.target.neighbours
        beyond = f"{made.beyond} {whose(about)} ({made.beyond / made.n:.2%}) beyond either end"
        facts = [
            ("Promise", neighbours(str(self.guarantee), made.n, about)),
            ("Price", f"{quantiles}, with epsilon = {made.eta:.3g} each"),
            ("Aim", f"{beyond}, which are clipped; a missing value is beyond neither"),
        ]
        both = ((self.outer[name], self[name]) for name in self)
        cells = [[f"{_plain(low)} to {_plain(high)}" for low, high in pair] for pair in both]
        table = Table(list(self), ("outer range", "suggested"), cells)
        note = "No number on this page but the suggested ends was computed from the data."
        heading = Heading("Suggested bounds")
        return [heading, "", FactList(facts), "", table, "", f"{note} {_ADDS_UP}"]


@suggests_arguments
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReleasedLevels(ReleasedDeclaration[tuple[Hashable, ...]]):
    """Levels of a column that were released privately; a mapping that fits into ``levels=``.

    Attributes
    ----------
    column : str
    found : tuple
        The released levels in increasing order, numbers before texts; the first is the reference.
    n : int
        Number of records, or of persons.
    calibration : LevelCalibration
        The chances of levels by their counts; they are public.
    guarantee : Guarantee
    entry : Entry or None
        The entry that a ledger was charged with.
    identifier : str
        Drawn at release, and kept in the file, by which a fit tells one release from two.
    payment : Payment
        What a fit that uses any of it says of its price.

    Examples
    --------
    >>> from privatelr import levels_from, load_dataset
    >>> levels = levels_from(load_dataset("anes96"), "vote", eps=1.0, delta=1e-6)
    >>> levels.column, levels.found, levels.nobs
    ('vote', ('Clinton', 'Dole'), 944)
    """

    column: str
    found: tuple[Hashable, ...]
    n: int
    calibration: LevelCalibration
    guarantee: Guarantee
    entry: Entry | None = None
    identifier: str = field(default_factory=draw_identifier)
    kind = "levels"

    @property
    def declared(self) -> Mapping[str, tuple[Hashable, ...]]:
        """The levels of the one column, as plain values."""
        return {self.column: self.found}

    @property
    def nobs(self) -> int:
        """Number of records, or of persons; it is public."""
        return self.n

    def page(self) -> list[Piece]:
        """The pieces of the page that `print` shows."""
        about = self.calibration.target.neighbours
        half, sure = self.calibration.ladder
        facts = [
            ("Promise", neighbours(str(self.guarantee), self.n, about)),
            (
                "Rule",
                f"a level of {half} {whose(about)} is released with a chance of one half, and one "
                f"of {sure} always; other levels may exist",
            ),
            ("Levels", ", ".join(map(repr, self.found)) or "none"),
        ]
        note = "Nothing on this page but the levels was computed from the data."
        heading = Heading(f"Released levels of {self.column!r}")
        return [heading, "", FactList(facts), "", f"{note} {_ADDS_UP}"]


def whose(about: Neighbours) -> str:
    """Return what neighbours replace, as a plural."""
    return "persons" if about is REPLACE_PERSON else "records"


def schema_text(**declared: Any) -> str:
    """Return declarations as a schema file in TOML: ``bounds``, ``levels``, ``row_norm``."""
    tables = {name: value for name, value in declared.items() if isinstance(value, Mapping)}
    lines = [f"{name} = {_plain(value)}" for name, value in declared.items() if name not in tables]
    for title, table in tables.items():
        values = [f"{_quoted(name)} = {_plain(value)}" for name, value in table.items()]
        lines += [f"[{title}]", *values] if values else []
    return "\n".join([*lines, ""])


def key_of(name: str) -> str:
    """Return a name as a key of TOML, in quotes if it needs them."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _quoted(name)


def _plain(value: Any) -> str:
    """Return a number or a text as TOML spells it, a whole number without a fraction."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        pairs = (f"{_quoted(name)} = {_plain(one)}" for name, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_plain, value))}]"
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return repr(int(value) if whole else value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
