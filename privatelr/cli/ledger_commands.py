"""The command ``ledger``: accounts on disk, and how other commands charge one."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

from privatelr import page_model
from privatelr.cli import files
from privatelr.cli.option_readers import Parser
from privatelr.cli.options import add_command, add_group, given
from privatelr.cli.outcomes import DONE, REFUSED, STATUSES, InputError, print_page
from privatelr.errors import ArgumentError, count_of, require_number
from privatelr.privacy import prices
from privatelr.privacy.accounting import (
    NAMED,
    Ledger,
    entry_to_json,
    ledger_page,
)
from privatelr.privacy.accounting.ledger_store import Charge
from privatelr.results.release_files import charge_of

_NARROWEST, _WIDEST = 40, 100
_PLAIN = "\033[0m"
_GREEN, _YELLOW, _RED = "\033[32m", "\033[33m", "\033[31m"

_TEXT = f"""\
Keep one account of everything that is released about a data set, in a file that
every notebook, process and command charges before it reads the data.

PRIVATELR_LEDGER=FILE names a ledger for a whole shell or notebook: no private release
escapes it then. Charges are never taken back. The file is to be kept on a disk of one
machine, as locks over a network are not to be trusted.


examples:
  privatelr ledger create clinic.ledger --eps 3 --delta 1e-6 --dataset "clinic 2026"
  privatelr fit data.csv "y ~ age" --bounds age=18:90 --ledger clinic.ledger
  privatelr ledger show clinic.ledger

{STATUSES}"""


def add_commands(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``ledger`` with its own subcommands."""
    line = "keep one account of all releases about a data set, on disk"
    actions = add_group(commands, "ledger", line, _TEXT)
    for run, told, example in _ACTIONS:
        text = f"{told[0].upper()}{told[1:]}.\n\n\nexample:\n  {example}\n\n{STATUSES}"
        add_command(actions, f"ledger {run.__name__}", run, told, text)


def ledger_of(chosen: argparse.Namespace) -> dict[str, Any]:
    """Keyword for a function that pays: the ledger of ``--ledger``, opened before any other work.

    A note without ``--ledger`` is about the ledger of PRIVATELR_LEDGER, which is charged once.

    Raises
    ------
    LedgerError
        If it cannot be opened.
    ArgumentError
        If there is a note, and no ledger.
    """
    named = os.environ.get(NAMED) or None
    path = named if chosen.ledger is None and chosen.note is not None else chosen.ledger
    if path is not None:
        return {"ledger": Ledger.open(path, note=chosen.note)}
    if chosen.note is not None:
        raise ArgumentError(f"--note goes with --ledger, or with {NAMED}.")
    return {}


def _path(chosen: argparse.Namespace) -> str:
    path = chosen.file or os.environ.get(NAMED)
    if not path:
        raise InputError(f"LEDGER: name the file of a ledger, or set {NAMED}.")
    return str(path)


def create(chosen: argparse.Namespace) -> int:
    """Create a ledger, and print its page."""
    if chosen.eps is None:
        raise ArgumentError("--eps: a budget is needed, such as --eps 3.")
    require_number(ArgumentError, "--eps", chosen.eps, "a finite number above 0", above=0)
    options = given(chosen, "delta", "dataset", "neighbours", "account")
    if delta := options.get("delta"):
        takes, below = "a number from 0 to below 1", math.nextafter(1.0, 0.0)
        require_number(ArgumentError, "--delta", delta, takes, at_least=0, at_most=below)
    _print(Ledger.create(chosen.file, chosen.eps, **options), chosen, "the ledger was created")
    return DONE


def show(chosen: argparse.Namespace) -> int:
    """Print what is spent, by whom, and what is left."""
    _print(Ledger.open(_path(chosen)), chosen)
    return DONE


def entries(chosen: argparse.Namespace) -> int:
    """Print all charges."""
    charges = Ledger.open(_path(chosen)).charges
    if chosen.json:
        print(json.dumps([_record(charge) for charge in charges], indent=1))
        return DONE
    pieces: list[page_model.Piece] = [ledger_page.entries(charges)] if charges else []
    warning = ledger_page.unreleased(charges)
    pieces += ["", page_model.Alarm(warning)] if warning else []
    print(_text(pieces or ["Nothing was charged."]))
    return DONE


def check(chosen: argparse.Namespace) -> int:
    """Check a ledger, and whether it knows saved models; the status is 1 if anything is wrong."""
    found = list(Ledger.check(chosen.file, head=chosen.head))
    ledger = None if found else Ledger.open(chosen.file)
    if ledger is not None:
        for path in chosen.releases:
            found += _strange(ledger, path, *files.read_release(path))
    if chosen.json:
        head = None if ledger is None else ledger.head
        print(json.dumps({"sound": not found, "findings": found, "head": head}, indent=1))
    elif ledger is None or found:
        print("\n".join(f"{told}." for told in found))
    else:
        known = [f"sound: every hash, event and composition of {count_of(len(ledger.rows), 'row')}"]
        known += ["the head that was noted"] if chosen.head is not None else []
        known += ["every model is known"] if chosen.releases else []
        print(f"{', and '.join(known)}. The head is {ledger.head}")
        if chosen.head is None:
            print(_NOTE_IT)
    return REFUSED if found else DONE


_NOTE_IT = (
    "(One who computes the whole file anew is found by models, and by a head that was noted "
    "elsewhere: --head.)"
)


def _strange(ledger: Ledger, path: str, model: Any, digest: str) -> Iterator[str]:
    """Say that a ledger does not have the charge of a model, or has it for another model."""
    entry = charge_of(model)
    if entry is None or not ledger.knows(entry):
        yield (
            f"{path!r}: the ledger does not have its charge as it was; the model was charged "
            "elsewhere, or a backup of the ledger was put back"
        )
    elif (first := ledger.saved_as(entry)) not in (None, digest):
        yield f"{path!r}: its charge was saved as {str(first)[:12]}, and this file has another hash"


def export(chosen: argparse.Namespace) -> int:
    """Print or write all rows with their hashes."""
    with files.reserved(chosen.out, chosen.force):
        rows = Ledger.open(_path(chosen)).rows
        told = [{"row": json.loads(row.body), "sha256": row.hash} for row in rows]
        head = {"row": len(rows), "sha256": rows[-1].hash}
        whole = {"format": "privatelr-ledger-rows", "head": head, "rows": told}
        text = json.dumps(whole, indent=1) + "\n"
        if chosen.out is None:
            sys.stdout.write(text)
        else:
            files.write(chosen.out, text.encode(), chosen.force)
    return DONE


_ACTIONS: tuple[tuple[Callable[[argparse.Namespace], int], str, str], ...] = (
    (
        create,
        "open an account with a budget, in a new file",
        'privatelr ledger create clinic.ledger --eps 3 --delta 1e-6 --dataset "clinic 2026"',
    ),
    (
        show,
        "show what is spent, by whom, and what is left",
        "privatelr ledger show clinic.ledger",
    ),
    (
        entries,
        "list all charges, with the releases that were saved of them",
        "privatelr ledger entries clinic.ledger",
    ),
    (
        check,
        "look at every row, and whether a noted head and saved models are known; the exit status "
        "is 1 if not",
        "privatelr ledger check clinic.ledger model.json",
    ),
    (
        export,
        "print all rows with their hashes as JSON, to be kept elsewhere; no account is made of it",
        "privatelr ledger export clinic.ledger --out clinic-2026.json",
    ),
)


# -- printing ------------------------------------------------------------------------------------


def _print(ledger: Ledger, chosen: argparse.Namespace, done: str | None = None) -> None:
    """Print the page of a ledger, after what was done to it."""
    if not chosen.json:
        print_page(_text(ledger.page()), done)
        return
    charges = ledger.charges
    facts = {
        "dataset": ledger.dataset,
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "neighbours": ledger.neighbours.name,
        "person": ledger.person,
        "account": ledger.account,
        "spent": ledger.spent(),
        "left": ledger.left(),
        "charges": len(ledger.entries),
        "without_release": sum(one.release is None for one in charges),
        "head": ledger.head,
    }
    print_page(json.dumps(facts, indent=1), done)  # in ASCII, so that no text steers a terminal


def _record(charge: Charge) -> dict[str, Any]:
    return {
        "row": charge.number,
        "time": charge.time,
        **entry_to_json(charge.entry),
        "person": charge.entry.person,
        "price": prices(charge.entry.guarantee),
        "note": charge.note,
        "privatelr": charge.software,
        "release": charge.release,
    }


def _text(pieces: list[page_model.Piece]) -> str:
    """Write a page as wide as the terminal, and in colour if it is one."""
    if not sys.stdout.isatty():
        return page_model.as_text(pieces)
    columns = shutil.get_terminal_size((page_model.WIDTH + 1, 24)).columns - 1
    width = min(max(columns, _NARROWEST), _WIDEST)
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return page_model.as_text(pieces, width)
    return "\n".join(
        _coloured("\n".join(page_model.as_lines(piece, width)), piece) for piece in pieces
    )


def _coloured(text: str, piece: page_model.Piece) -> str:
    if isinstance(piece, page_model.Alarm):
        return f"{_YELLOW}{text}{_PLAIN}"
    if isinstance(piece, str) and piece.startswith("["):
        full = piece.count("#") / max(piece.count("#") + piece.count("."), 1)
        colour = _GREEN if full < 0.8 else _YELLOW if full < 1 else _RED
        return f"{colour}{text}{_PLAIN}"
    return text
