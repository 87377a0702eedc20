"""The page of a ledger: what is spent, by whom, what is left; and a plot of its charges."""

from __future__ import annotations

import math
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
_MOST_BARS, _LONGEST_LABEL = 30, 40


def page(content: Content) -> list[Piece]:
    """Lay out a ledger; one in memory has neither rows nor notes."""
    own, charges = content.statement, content.charges
    name = f" of {on_one_line(content.dataset)}" if content.dataset else ""
    at = f" at delta {own.delta:.6g}" if own.delta > 0 else ""
    share = statements.share(own)
    # the first release also pays for the conversion, which is no share of what an account holds
    whole = "of what the account holds is " if isinstance(own.rule, Renyi) else ""
    facts = [f"Neighbours: {_about(own)}", f"Account: {statements.account(own)}"]
    if content.rows:
        facts.append(f"Opened: {content.opened[:10]}")
        facts.append(f"Head: row {len(content.rows)}, {content.head}")
    pieces: list[Piece] = [
        Heading(f"Ledger{name}: epsilon {own.epsilon:.6g}{at}"),
        *(Indented(fact, rest="  ") for fact in facts),
        f"{bar(share)} {percent(share)} {whole}spent",
        f"Spent: epsilon {statements.spent(own, own.delta):.6g}{at}",
        _left(own),
    ]
    if not charges:
        return [*pieces, "Nothing was charged."]
    if content.rows:
        pieces += ["", _by_whom(own, charges)]
    pieces += ["", entries(charges[-_MOST_ROWS:])]
    hidden = len(charges) - _MOST_ROWS
    if hidden > 0:
        shown = "`privatelr ledger entries`" if content.rows else "`ledger.entries`"
        pieces.append(f"({count_of(hidden, 'earlier charge')}; {shown} shows all)")
    if content.rows and (warning := unreleased(charges)):
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
    widest = {"release": 79, "row": 6, "time (UTC)": 16, "price": 24, "saved as": 12, "person": 12}
    rows = []
    for one in charges:
        entry = one.entry
        release = "no release" if one.release is None else one.release[:12]
        cost = f"{statements.price(entry.guarantee)}{_times(entry)}"
        time = one.time[:16].replace("T", " ")
        person = on_one_line(entry.person or "")
        rows.append((_label(entry), str(one.number), time, cost, release if time else "", person))
    # charges in memory have no times and releases, and those about records no person
    some = [k for k, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    titles = [[*widest][k] for k in some]
    listed = [[row[k] for k in some] for row in rows]
    return Listing(titles, listed, [widest[title] for title in titles])


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
    charges = statement.entries[earlier:]
    names += [shorten(f"{_label(entry)}{_times(entry)}", _LONGEST_LABEL) for entry in charges]
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
    return f"{on_one_line(entry.label) or '(no label)'}{part}"


def _times(entry: Entry) -> str:
    return "" if entry.times == 1 else f" x {entry.times}"
