"""Bugs planted in the package on purpose, and how many of them the audit catches.

An audit that finds nothing says little before it is known what it would have found. Each bug is
planted in the package as it runs, and the part of the audit that is to see it is run; no other
test takes part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from privatelr.audit.mutations.of_choices import OF_CHOICES
from privatelr.audit.mutations.of_mechanisms import OF_MECHANISMS
from privatelr.audit.mutations.of_rows import OF_ROWS
from privatelr.audit.mutations.planted import Mutation, wrongs

__all__ = ["MUTATIONS", "Score", "Shown", "run"]

MUTATIONS: tuple[Mutation, ...] = (*OF_ROWS, *OF_MECHANISMS, *OF_CHOICES)


@dataclass(frozen=True, slots=True)
class Shown:
    """A bug, and what of the audit saw it; empty if nothing did."""

    bug: str
    caught_by: str

    def line(self, wide: int = 60) -> str:
        """As a line, with so many places for the bug."""
        return f"{self.bug:<{wide}}{self.caught_by or 'NOT CAUGHT'}"

    __str__ = line


@dataclass(frozen=True, slots=True)
class Score:
    """What came of planting bugs.

    Attributes
    ----------
    shown : tuple of Shown
    without : tuple of str
        What the same parts of the audit find wrong in the package without a bug: if there is
        anything, they prove nothing.
    """

    shown: tuple[Shown, ...]
    without: tuple[str, ...]

    @property
    def caught(self) -> int:
        """How many bugs were seen."""
        return sum(bool(each.caught_by) for each in self.shown)

    @property
    def ok(self) -> bool:
        """Whether every bug was, and nothing without one."""
        return self.caught == len(self.shown) and not self.without

    def to_json(self) -> str:
        """The same as an object."""
        return json.dumps(
            {
                "planted": len(self.shown),
                "caught": self.caught,
                "bugs": [asdict(each) for each in self.shown],
                "without": list(self.without),
            },
            indent=1,
        )

    def __str__(self) -> str:
        wide = max((len(each.bug) for each in self.shown), default=0) + 2
        head = f"{'planted bug':<{wide}}caught by"
        lines = [each.line(wide) for each in self.shown]
        rule = "-" * max(map(len, [head, *lines]))
        wrong = [f"without a bug: {said}" for said in self.without]
        return "\n".join(
            [head, rule, *lines, *wrong, "", f"{len(self.shown)} planted, {self.caught} caught"]
        )


def run(
    mutations: Sequence[Mutation] = MUTATIONS, *, report: Callable[[Shown], None] | None = None
) -> Score:
    """Plant bugs one after the other, and run what of the audit is to see each.

    Parameters
    ----------
    mutations : sequence of Mutation
        By default all there are, in one to three minutes.
    report : callable, optional
        Called with each bug as soon as it is known what saw it.

    Returns
    -------
    Score

    Notes
    -----
    The package is changed while this runs: nothing else may use it meanwhile. Afterwards it is as
    it was.

    **Privacy.** *Covered*: no data is involved. *Neighbours*: replace one record. *Assumed
    public*: everything. *Not covered*: bugs that are not planted.
    """
    looks = {look.name: look for mutation in mutations for look in mutation.looks}
    without = tuple(
        f"{said}: {verdict}" for look in looks.values() for said, verdict in wrongs(look)
    )
    shown = []
    for mutation in mutations:
        shown.append(Shown(mutation.name, mutation.caught_by()))
        if report is not None:
            report(shown[-1])
    return Score(tuple(shown), without)
