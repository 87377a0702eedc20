"""What is wrong with the rows of a ledger on disk: their places, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from privatelr.errors import LedgerError, show
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.ledger_rows import LedgerRow, RowReader, chained


def in_place(table: Sequence[tuple[int, str, str]]) -> tuple[list[LedgerRow], list[str]]:
    """Take the rows out of their table, by their numbers.

    Returns
    -------
    list of LedgerRow
        All rows but the one that holds the head.
    list of str
        Part of a sentence for each of: numbers that do not count, and a head that is another one.
    """
    heads = [(body, hashed) for number, body, hashed in table if number == 0]
    rows = [LedgerRow(body, hashed) for number, body, hashed in table if number != 0]
    faults = [
        f"row {at} has the number {number}: it was renumbered, or a row before it is gone"
        for at, (number, *_) in enumerate((one for one in table if one[0] != 0), 1)
        if at != number
    ][:1]
    last = rows[-1].hash if rows else ""
    if not heads:
        faults.append("the row that holds the head is gone")
    elif heads != [(str(len(rows)), last)]:
        count, hashed = heads[0]
        faults.append(
            f"the head says that row {show(count)} is the last, of the hash {show(hashed[:12])}, "
            f"and it is row {len(rows)}, of the hash {show(last[:12])}: rows at the end were "
            "changed or are gone"
        )
    return rows, faults


def unknown_head(rows: Sequence[LedgerRow], head: str | None) -> Iterator[str]:
    """Say that no row has a hash that was noted as the head; rows may have followed it since.

    If the chain is sound and a row has it, then all rows up to this one are as they were.
    """
    if head is not None and head not in {row.hash for row in rows}:
        yield (
            f"no row has the hash {head[:12]} that was noted as the head: rows up to it were "
            "changed or are gone"
        )


def findings(rows: Sequence[LedgerRow]) -> Iterator[str]:
    """Check every hash, event and composition; yields a sentence for each thing that is wrong.

    Within one budget charges only add up, so what fits at its end did fit at every charge.
    """
    head, sound = "", True
    for number, row in enumerate(rows, 1):
        if chained(row.body, head) != row:
            sound = False
            yield f"row {number} does not follow from the one before it: it or its hash was changed"
        head = row.hash
    reader, spans = RowReader(), [0, *_ends_of_budgets(rows), len(rows)]
    if not sound:  # what each row says is still looked at
        rows = list(_rechained(rows))
    for end in spans[1:]:
        try:
            found = reader.read(rows[:end])
        except LedgerError as error:
            yield f"{error}"
            return
        for allowance in (None, *found.allowances):
            if not statements.is_within(found.statements(allowance)[-1]):
                where = "" if allowance is None else f" of the allowance {allowance!r}"
                yield f"the charges up to row {end} are more than the budget{where}"


def _rechained(rows: Sequence[LedgerRow]) -> Iterator[LedgerRow]:
    head = ""
    for row in rows:
        yield (made := chained(row.body, head))
        head = made.hash


def _ends_of_budgets(rows: Sequence[LedgerRow]) -> list[int]:
    """Return how many rows stand before each change of a limit."""
    marks = ('"kind": "changed"', '"kind": "allowed"')
    return [at for at, row in enumerate(rows) if any(mark in row.body for mark in marks)]
