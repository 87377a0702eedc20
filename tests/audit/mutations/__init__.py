"""Bugs that are planted in the package on purpose, and how many of them the audit catches.

An audit that finds nothing means little unless it is known what it would find. So each bug is
planted in the running package, and then the parts of the audit that should catch it are run. No
other test takes part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from tests.audit.mutations.of_answers import OF_ANSWERS
from tests.audit.mutations.of_blind_spots import OF_BLIND_SPOTS
from tests.audit.mutations.of_choices import OF_CHOICES
from tests.audit.mutations.of_classes import OF_CLASSES
from tests.audit.mutations.of_ledgers import OF_LEDGERS
from tests.audit.mutations.of_mechanisms import OF_MECHANISMS
from tests.audit.mutations.of_persons import OF_PERSONS
from tests.audit.mutations.of_rows import OF_ROWS
from tests.audit.mutations.of_strata import OF_STRATA
from tests.audit.mutations.planted import Mutation, wrongs

__all__ = ["MUTATIONS", "Score", "Shown", "run"]

MUTATIONS: tuple[Mutation, ...] = (
    *OF_ROWS,
    *OF_MECHANISMS,
    *OF_PERSONS,
    *OF_STRATA,
    *OF_CLASSES,
    *OF_CHOICES,
    *OF_ANSWERS,
    *OF_LEDGERS,
    *OF_BLIND_SPOTS,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A planted bug, and the finding of the audit that caught it; empty if none did."""

    bug: str
    caught_by: str

    def line(self, wide: int = 60) -> str:
        """The bug and what caught it, as a line whose first column has `wide` characters."""
        return f"{self.bug:<{wide}}{self.caught_by or 'NOT CAUGHT'}"

    __str__ = line


@dataclass(frozen=True, slots=True)
class Score:
    """The result of planting bugs.

    Attributes
    ----------
    shown : tuple of Shown
        One entry for each bug.
    without : tuple of str
        What the same parts of the audit find wrong in the package without a planted bug. It
        should be empty; otherwise a caught bug proves nothing.
    """

    shown: tuple[Shown, ...]
    without: tuple[str, ...]

    @property
    def caught(self) -> int:
        """The number of bugs that were caught."""
        return sum(bool(each.caught_by) for each in self.shown)

    @property
    def ok(self) -> bool:
        """Whether every bug was caught, and nothing was found without one."""
        return self.caught == len(self.shown) and not self.without

    def to_json(self) -> str:
        """The result as a JSON object."""
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
    """Plant bugs one after the other, and run the parts of the audit that should catch each.

    Parameters
    ----------
    mutations : sequence of Mutation
        By default all bugs, which takes one to three minutes.
    report : callable, optional
        Called with the result of each bug as soon as it is known.

    Returns
    -------
    Score

    Notes
    -----
    The package is changed while this function runs, so nothing else may use it during that time.
    Afterwards it is as before.

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
