"""Choices made one after the other under one guarantee, as a calibration settles them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privatelr.privacy.events import BoundedRangeEvent
from privatelr.privacy.guarantees import NonPrivate
from privatelr.privacy.selection import ExponentialMechanism

if TYPE_CHECKING:
    from privatelr.privacy.events import Event
    from privatelr.privacy.guarantees import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Rounds of choices by scores, and their price.

    Attributes
    ----------
    target : Guarantee
        What all choices together satisfy.
    rounds : int
        T, how many choices there are.
    sensitivity : float
        By how much a score moves at most with one record.
    eta : float
        Bounded range of one choice; infinite without a guarantee.
    """

    target: Guarantee
    rounds: int
    sensitivity: float
    eta: float

    @property
    def choice(self) -> ExponentialMechanism | None:
        """How a round chooses, by its scores; None for the largest score without noise."""
        if math.isinf(self.eta):
            return None
        # a score moves up or down, so that all scores move within twice the sensitivity
        return ExponentialMechanism(self.eta, 2 * self.sensitivity)

    @property
    def events(self) -> tuple[Event, ...]:
        """What a ledger composes for all rounds."""
        if isinstance(self.target, NonPrivate):
            return ()
        return (BoundedRangeEvent(self.eta, self.rounds, self.target.neighbours),)
