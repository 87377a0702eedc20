"""The command ``ledger``: accounts on disk, and how other commands charge one."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from privatelr import page_model
from privatelr.cli import files
from privatelr.cli.options import LedgerOptions, Output, Written
from privatelr.cli.outcomes import DONE, REFUSED, InputError, print_page
from privatelr.errors import ArgumentError, count_of
from privatelr.privacy import prices
from privatelr.privacy.accounting import (
    NAMED,
    Ledger,
    entry_to_json,
    ledger_page,
)
from privatelr.privacy.accounting.ledger_store import Charge
from privatelr.results.release_files import load_with_hash


def ledger_of(charge: LedgerOptions) -> dict[str, Any]:
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
    path = named if charge.ledger is None and charge.note is not None else charge.ledger
    if path is not None:
        return {"ledger": Ledger.open(path, note=charge.note)}
    if charge.note is not None:
        raise ArgumentError(f"--note goes with --ledger, or with {NAMED}.")
    return {}


def _path(file: str | None) -> str:
    path = file or os.environ.get(NAMED)
    if not path:
        raise InputError(f"LEDGER: name the file of a ledger, or set {NAMED}.")
    return path


def create(
    file: str,
    /,
    *,
    eps: Annotated[float, Parameter(validator=Number(gt=0, lt=math.inf))],
    delta: Annotated[float, Parameter(validator=Number(gte=0, lt=1))] = 0.0,
    dataset: str = "",
    neighbours: Literal["replace", "zero-out", "person"] = "replace",
    account: Literal["sum", "renyi"] | None = None,
    output: Output = Output(),
) -> int:
    """Open an account with a budget, in a new file.

    For example:
      privatelr ledger create clinic.ledger --eps 3 --delta 1e-6 --dataset "clinic 2026"

    Parameters
    ----------
    file
        A file that does not exist yet.
    eps
        The whole budget.
    delta
        The delta at which it is counted; default 0, for pure releases only.
    dataset
        What the ledger is about, as people call it.
    neighbours
        What a release hides; by default one record is replaced.
    account
        How charges add up. The default is renyi if there is a delta, else sum.
    """
    ledger = Ledger.create(
        file, eps, delta, dataset=dataset, neighbours=neighbours, account=account
    )
    _print(ledger, output, "the ledger was created")
    return DONE


def show(file: str | None = None, /, *, output: Output = Output()) -> int:
    """Show what is spent, by whom, and what is left.

    For example:
      privatelr ledger show clinic.ledger

    Parameters
    ----------
    file
        The ledger; by default the one that PRIVATELR_LEDGER names.
    """
    _print(Ledger.open(_path(file)), output)
    return DONE


def entries(file: str | None = None, /, *, output: Output = Output()) -> int:
    """List all charges, with the releases that were saved of them.

    For example:
      privatelr ledger entries clinic.ledger

    Parameters
    ----------
    file
        The ledger; by default the one that PRIVATELR_LEDGER names.
    """
    charges = Ledger.open(_path(file)).charges
    if output.json:
        print(json.dumps([_record(charge) for charge in charges], indent=1))
        return DONE
    pieces: list[page_model.Piece] = [ledger_page.entries(charges)] if charges else []
    warning = ledger_page.unreleased(charges)
    pieces += ["", page_model.Alarm(warning)] if warning else []
    print(page_model.as_text(pieces or ["Nothing was charged."]))
    return DONE


def check(file: str, /, *releases: str, head: str | None = None, output: Output = Output()) -> int:
    """Check every row, and whether the ledger knows a noted head and saved models.

    The exit status is 1 if not.

    For example:
      privatelr ledger check clinic.ledger model.json

    Parameters
    ----------
    file
        The ledger.
    releases
        Files that fit has written. Each must be known to the ledger.
    head
        Hash of a head that was noted elsewhere, as show, check and export print it.
    """
    found = list(Ledger.check(file, head=head))
    ledger = None if found else Ledger.open(file)
    if ledger is not None:
        for path in releases:
            found += _strange(ledger, path, *load_with_hash(path))
    if output.json:
        head = None if ledger is None else ledger.head
        print(json.dumps({"sound": not found, "findings": found, "head": head}, indent=1))
    elif ledger is None or found:
        print("\n".join(f"{told}." for told in found))
    else:
        known = [f"sound: every hash, event and composition of {count_of(len(ledger.rows), 'row')}"]
        known += ["the head that was noted"] if head is not None else []
        known += ["every model is known"] if releases else []
        print(f"{', and '.join(known)}. The head is {ledger.head}")
        if head is None:
            print(
                "(One who computes the whole file anew is found by models, and by a head that was "
                "noted elsewhere: --head.)"
            )
    return REFUSED if found else DONE


def _strange(ledger: Ledger, path: str, model: Any, digest: str) -> Iterator[str]:
    """Say that a ledger does not have the charge of a model, or has it for another model."""
    entry = model.entry
    if entry is None or not ledger.knows(entry):
        yield (
            f"{path!r}: the ledger does not have its charge as it was; the model was charged "
            "elsewhere, or a backup of the ledger was put back"
        )
    elif (first := ledger.saved_as(entry)) not in (None, digest):
        yield f"{path!r}: its charge was saved as {str(first)[:12]}, and this file has another hash"


def export(file: str | None = None, /, *, written: Written = Written()) -> int:
    """Print all rows with their hashes as JSON, to be kept elsewhere.

    No account is made of it.

    For example:
      privatelr ledger export clinic.ledger --out clinic-2026.json

    Parameters
    ----------
    file
        The ledger; by default the one that PRIVATELR_LEDGER names.
    """
    files.require_place(written.out, written.force)
    rows = Ledger.open(_path(file)).rows
    told = [{"row": json.loads(row.body), "sha256": row.hash} for row in rows]
    head = {"row": len(rows), "sha256": rows[-1].hash}
    whole = {"format": "privatelr-ledger-rows", "head": head, "rows": told}
    files.deliver(json.dumps(whole, indent=1), written)
    return DONE


# -- printing ------------------------------------------------------------------------------------


def _print(ledger: Ledger, output: Output, done: str | None = None) -> None:
    """Print the page of a ledger, after what was done to it."""
    if not output.json:
        print_page(page_model.as_text(ledger.page()), done)
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
