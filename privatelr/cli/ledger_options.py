"""The options about ledgers, of commands that pay and of ``privatelr ledger``; see `options`."""

from __future__ import annotations

from typing import Any

from privatelr.cli import option_readers as read
from privatelr.privacy.accounting import ACCOUNTS
from privatelr.privacy.guarantees import NEIGHBOURS

PAYING = ("what is charged", "--ledger --note")
COMMANDS: dict[str, tuple[tuple[str, str], ...]] = {
    "ledger create": (("", "file --eps --delta --dataset --neighbours --account --json --quiet"),),
    "ledger show": (("", "file --json --quiet"),),
    "ledger entries": (("", "file --json --quiet"),),
    "ledger check": (("", "file releases --head --json --quiet"),),
    "ledger export": (("", "file --out --force --json --quiet"),),
}
_OPTIONAL = {"metavar": "LEDGER", "nargs": "?"}
READ: dict[str, dict[str, Any]] = {
    "--ledger": {"metavar": "LEDGER"},
    "--note": {"metavar": "TEXT"},
    "--dataset": {"metavar": "NAME", "default": ""},
    "--neighbours": {"choices": tuple(NEIGHBOURS), "default": "replace"},
    "--account": {"choices": ACCOUNTS},
    "--head": {"metavar": "HASH", "type": read.sha256},
    "releases": {"metavar": "MODEL", "nargs": "*", "default": []},
    **{f"ledger {action} file": {"metavar": "LEDGER"} for action in ("create", "check")},
    **{f"ledger {action} file": _OPTIONAL for action in ("show", "entries", "export")},
}
HELP = {
    "--ledger": "charge this ledger before the table is read, as well as the one that "
    "PRIVATELR_LEDGER names; a file of privatelr ledger create",
    "--note": "keep a text with the charge; none is kept by default",
    "--dataset": "what it is about, as people call it",
    "--neighbours": "what a release hides; default replace: one record is replaced",
    "--account": "how charges add up; default renyi if there is a delta, else sum",
    "--head": "the hash of a head that was noted elsewhere, as show, check and export have it",
    "releases": "files that fit has written; each must be known to the ledger",
    **dict.fromkeys(
        (f"ledger {action} file" for action in ("show", "entries", "export")),
        "the ledger; by default the one that PRIVATELR_LEDGER names",
    ),
    "ledger check file": "it",
    "ledger create file": "a file that does not exist yet",
    "ledger create --eps": "the whole budget",
    "ledger create --delta": "the delta at which it is counted; default 0: pure releases only",
    "ledger export --json": "as without it: what is printed is JSON",
    "ledger export --out": "write to a file, and print nothing; an existing file is refused",
    **dict.fromkeys(
        (f"ledger {action} --json --quiet" for action in ("create", "show", "entries", "check")),
        "print JSON in place of the page",
    ),
}
