"""The page of a ledger: what is spent, by whom, what is left; and a plot of its charges."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from privatelr.errors import count_of
from privatelr.page_model import Alarm, Heading, Indented, Listing, Piece, on_one_line, shorten
from privatelr.plot_style import HIGHLIGHT, MAIN, add_legend, axes_for, literal
from privatelr.privacy.accounting import statement as statements
from privatelr.privacy.accounting.filters import DeclaredPrices, Renyi, unused
from privatelr.privacy.accounting.ledger_entry import Entry
from privatelr.privacy.accounting.ledger_store import Charge, Content
from privatelr.privacy.accounting.statement import Statement
from privatelr.privacy.guarantees import REPLACE_PERSON

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR = 40
"""Width of the bar, in characters."""
_MOST_ROWS = 12
_WIDEST_ENTRY = (79, 6, 16, 24, 12, 12)
_MOST_ROWS_IN_MEMORY = 20
_WIDEST_IN_MEMORY = (79, 16, 34, 79)
"""Largest width of each column, in characters."""
_MOST_BARS, _LONGEST_LABEL = 30, 40


def page(content: Content) -> list[Piece]:
    """Lay out a ledger on disk."""
    own, charges = content.statement, content.charges
    name = on_one_line(content.dataset) or "unnamed data"
    at = f" at delta {own.delta:.6g}" if own.delta > 0 else ""
    share = statements.share(own)
    # the first release also pays for the conversion, which is no share of what an account holds
    whole = "of what the account holds is " if isinstance(own.rule, Renyi) else ""
    pieces: list[Piece] = [
        Heading(f"Ledger of {name}: epsilon {own.epsilon:.6g}{at}"),
        Indented(f"Neighbours: {_about(own)}", rest="  "),
        Indented(f"Account: {statements.account(own)}", rest="  "),
        Indented(f"Opened: {content.opened[:10]}", rest="  "),
        Indented(f"Head: row {len(content.rows)}, {content.head}", rest="  "),
        f"{bar(share)} {percent(share)} {whole}spent",
        f"Spent: epsilon {statements.spent(own, own.delta):.6g}{at}",
        _left(own),
    ]
    if charges:
        pieces += ["", _by_whom(own, charges), "", entries(charges[-_MOST_ROWS:])]
        hidden = len(charges) - _MOST_ROWS
        if hidden > 0:
            pieces.append(
                f"({count_of(hidden, 'earlier charge')}; `privatelr ledger entries` shows all)"
            )
    else:
        pieces.append("Nothing was charged.")
    if warning := unreleased(charges):
        pieces += ["", Alarm(warning)]
    return pieces


def bar(share: float) -> str:
    """Draw a share of 1 as a bar, in characters that every terminal has."""
    full = min(max(math.ceil(share * _BAR), 0), _BAR) if share < math.inf else _BAR
    return f"[{'#' * full}{'.' * (_BAR - full)}]"


def percent(share: float) -> str:
    """Write a share of 1 as a percentage, rounded up."""
    return "more than 100%" if share > 1 else f"{math.ceil(100 * share - 1e-9)}%"


def unreleased(charges: Sequence[Charge]) -> str:
    """Say how many charges have no saved release; empty if all have one."""
    count = sum(charge.release is None for charge in charges)
    if not count:
        return ""
    many = f"{count_of(count, 'charge')} {'has' if count == 1 else 'have'}"
    return (
        f"{many} no saved release: what was paid for was not saved, was no fit, or was lost in a "
        "crash. It counts as spent."
    )


def entries(charges: Sequence[Charge]) -> Listing:
    """List charges, each with its row, time, label, price and release, and whom it is about."""
    rows = []
    for one in charges:
        entry = one.entry
        times = f" x {entry.times}" if entry.times > 1 else ""
        part = f" [{on_one_line(entry.part)}]" if entry.part is not None else ""
        told = f"{on_one_line(entry.label) or '(no label)'}{part}"
        release = "no release" if one.release is None else one.release[:12]
        cost = f"{statements.price(entry.guarantee)}{times}"
        time = one.time[:16].replace("T", " ")
        person = on_one_line(entry.person or "")
        rows.append((told, str(one.number), time, cost, release, person))
    headers = ("release", "row", "time (UTC)", "price", "saved as", "person")
    count = len(headers) if any(one.entry.person for one in charges) else len(headers) - 1
    return Listing(headers[:count], [row[:count] for row in rows], _WIDEST_ENTRY[:count])


def _by_whom(budget: Statement, charges: Sequence[Charge]) -> Listing:
    """List what the charges of each note have spent, by the rule of the whole."""
    rows = []
    for note in dict.fromkeys(one.note for one in charges):
        own = [one for one in charges if one.note == note]
        alone = replace(budget, entries=tuple(one.entry for one in own))
        times = sum(one.entry.times for one in own)
        spent = f"epsilon {statements.spent(alone, alone.delta):.6g}"
        unsaved = sum(one.release is None for one in own)
        rows.append((on_one_line(note) or "(no note)", str(times), spent, str(unsaved)))
    return Listing(("by whom", "releases", "spent", "unsaved"), rows, (79, 8, 30, 8))


def _left(statement: Statement) -> str:
    rule = statement.rule
    if isinstance(rule, DeclaredPrices):
        free = unused(rule, statement.entries)
        count = 0 if free is None else free.total()
        return f"Left: {count} of {rule.count} prices"
    pure = statements.left(statement, None, 0.0)
    return f"Left: epsilon {statements.rounded_down(pure)} for one more pure release"


def _about(statement: Statement) -> str:
    """Say what neighbours replace, and which column tells persons apart."""
    if statement.neighbours is not REPLACE_PERSON:
        return statement.neighbours.value
    silent = sum(entry.person is None for entry in statement.entries)
    told = "all entries have to be about persons of one column"
    if statement.person is not None:
        told = f"persons are told apart by the column {on_one_line(statement.person)!r}"
    if silent:
        told += f", which {silent} of {len(statement.entries)} entries do not state"
    return f"{statement.neighbours.value}; {told}"


# -- in memory -------------------------------------------------------------------------------


def page_in_memory(statement: Statement) -> list[Piece]:
    """Lay out the budget, the last entries (equal ones in one row), what is spent and left."""
    rule, delta = statement.rule, statement.delta
    at = f" at delta {delta:.6g}" if delta > 0 else ""
    facts = [f"Neighbours: {_about(statement)}"]
    if isinstance(rule, DeclaredPrices):
        facts.append(f"Account: {statements.account(statement)}")
    elif delta > 0:  # a pure budget is always counted by sums
        facts.append(f"Account: {statements.account(statement)}; prices may depend on results")
    total = f"Spent: epsilon {statements.spent(statement, delta):.6g}{at}"
    if isinstance(rule, Renyi):
        # the first release also pays for the conversion, so epsilon alone would mislead
        total += f", {math.ceil(100 * statements.share(statement))}% of what the account holds"
    return [
        Heading(f"Ledger: epsilon {statement.epsilon:.6g}{at}"),
        *(Indented(fact, rest="  ") for fact in facts),
        _entries_in_memory(statement),
        total,
        _left(statement),
    ]


def _entries_in_memory(statement: Statement) -> Piece:
    """Lay out the last rows, and how many rows before them are left out."""
    rows: Counter[Entry] = Counter()
    for entry in statement.entries:
        rows[replace(entry, times=1)] += entry.times
    if not rows:
        return Indented("nothing was released", first="  ")
    cells: list[tuple[str, ...]] = []
    for entry, times in rows.items():
        told = (entry.label, entry.part or entry.person or "")  # a ledger has one kind at most
        label, part = (on_one_line(text) for text in told)
        cells.append((label, part, statements.price(entry.guarantee), str(times)))
    hidden = max(len(cells) - _MOST_ROWS_IN_MEMORY, 0)
    before = [(f"... {hidden} before",)] if hidden else []
    kind = "person" if statement.neighbours is REPLACE_PERSON else "part"
    return Listing(
        ("release", kind, "price", "times"), [*before, *cells[hidden:]], _WIDEST_IN_MEMORY
    )


# -- plot -----------------------------------------------------------------------------------------


def plot_ledger(statement: Statement, ax: Any) -> Axes:
    """Draw a bar for each charge, from what was spent before to what is after; see `Ledger.plot`.

    Of many charges the earlier ones share a bar.
    """
    count = len(statement.entries)
    earlier = 0 if count <= _MOST_BARS else count - _MOST_BARS + 1
    stops = [0, *([earlier] if earlier else []), *range(earlier + 1, count + 1)]
    delta = statement.delta
    after = [
        statements.spent(replace(statement, entries=statement.entries[:stop]), delta)
        for stop in stops
    ]
    names = [f"{earlier} earlier charges"] if earlier else []
    names += [_label(entry) for entry in statement.entries[earlier:]]
    axes = axes_for("plot", (7.0, 1.6 + 0.3 * max(len(names), 1)), ax)
    widths = [end - start for start, end in pairwise(after)]
    axes.barh(range(len(names)), widths, 0.7, left=after[:-1], color=MAIN, linewidth=0)
    words = f"budget, epsilon {statement.epsilon:g}"
    axes.axvline(statement.epsilon, color=HIGHLIGHT, linestyle="--", linewidth=1.5, label=words)
    axes.set_yticks(range(len(names)), list(map(literal, names)))
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_xlim(0, 1.04 * max(statement.epsilon, after[-1]))
    at = f" at delta {delta:g}" if delta else ""
    axes.set_xlabel(f"epsilon that is spent{at}")
    add_legend(axes, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return axes


def _label(entry: Entry) -> str:
    part = "" if entry.part is None else f" [{on_one_line(entry.part)}]"
    times = "" if entry.times == 1 else f" x {entry.times}"
    return shorten(f"{on_one_line(entry.label) or '(no label)'}{part}{times}", _LONGEST_LABEL)
