"""Rules by which a ledger counts prices that may depend on the results of earlier releases.

A rule is fixed before the first release. (The first charge may choose it, because nothing has been
released by then.) The least of several valid accounts, taken afterwards, is not such a rule: an
adversary who sees earlier results can steer towards the account that charges least. The docstring
of each rule states what holds for it, and theory.md#prices-that-results-choose has the proofs.

One release may have several valid prices. The choice among them may depend on anything,
because each of them is a bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from privatelr.errors import GuaranteeError, count_of, require_choice, show
from privatelr.privacy import at_least, at_most, exact, implies, prices, renyi
from privatelr.privacy.accounting import composition_bounds as bounds
from privatelr.privacy.accounting.agreement import require_agreement
from privatelr.privacy.accounting.composition_bounds import event_counts
from privatelr.privacy.accounting.ledger_entry import Entry, priced
from privatelr.privacy.events import as_pure
from privatelr.privacy.guarantees import ApproxDP, PureDP
from privatelr.privacy.renyi_divergence import EXCESSES, conversion_cost

_KEPT = 0.1
"""Share of delta that is kept for releases that have their own delta; it costs about a percent of
epsilon."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Epsilons add up, and so do deltas.

    The rule holds for prices that are chosen by results (the basic filter of Rogers, Roth, Ullman
    and Vadhan 2016).
    """

    def __str__(self) -> str:
        return "sums of epsilon and of delta"


@dataclass(frozen=True, slots=True)
class Renyi:
    """Renyi divergences of one order add up; or epsilons and deltas do, if that is less.

    Divergences of one order are a valid filter (Feldman and Zrnic 2021; with zCDP and deltas
    Whitehouse, Ramdas, Rogers and Wu 2023). The sum is converted to epsilon once, at that order.
    Sums of epsilons and deltas are counted as well, with a share of delta of their own, and a
    release fits if it fits by one of the two counts.

    Releases with a delta of their own have no divergence. Their deltas are taken, as in `Sums`,
    from a second share of the same size, which the conversion does not get. Apart from its delta
    such a release counts as a pure one.

    Attributes
    ----------
    excess : float
        The order minus one.
    """

    excess: float

    def __str__(self) -> str:
        order, rest = f"{1 + self.excess:.4g}", f"{1 - 2 * _KEPT:.0%}"
        return (
            f"Renyi divergence of order {order} at {rest} of delta, with {_KEPT:.0%} for deltas of "
            f"releases, or sums if they are less and their deltas within the other {_KEPT:.0%}"
        )


@dataclass(frozen=True, slots=True)
class DeclaredPrices:
    """Prices that were declared in advance are composed once, by the best bound there is.

    Which of them are used, and in which order, may depend on results.

    Attributes
    ----------
    prices : tuple of Entry
        The declared prices; their labels and parts are empty.
    """

    prices: tuple[Entry, ...]

    @property
    def count(self) -> int:
        """How many prices were declared."""
        return sum(price.times for price in self.prices)

    def __str__(self) -> str:
        return f"a plan of {count_of(self.count, 'price')} declared in advance"


Rule = Sums | Renyi | DeclaredPrices
"""A way to count entries that remains valid if results choose the prices."""


ACCOUNTS = ("sum", "renyi")
"""Names of the rules that a ledger accepts."""


def named_rule(account: str | None, epsilon: float, delta: float) -> Rule | None:
    """Return the rule of this name for a budget; None if the first charge is to decide."""
    if account is not None:
        require_choice(GuaranteeError, "account", account, ACCOUNTS)
    if account == "sum" or delta == 0:
        return Sums()
    return renyi_rule(epsilon, delta) if account == "renyi" else None


def renyi_rule(epsilon: float, delta: float) -> Renyi:
    """Return the rule of the order at which a budget holds most zCDP, from the budget alone."""
    converted = conversion_cost(EXCESSES, _converted(delta))
    rho = (epsilon - converted) / (1 + EXCESSES)
    return Renyi(float(EXCESSES[int(np.argmax(rho))]))


def epsilon_used(rule: Rule, entries: Sequence[Entry], delta: float) -> float:
    """Return the smallest epsilon of a budget at this delta that covers the entries by this rule.

    All entries are taken to be about the same records. It is infinite if no budget covers them.
    """
    if not entries:
        return 0.0
    if isinstance(rule, DeclaredPrices):
        # a plan is spent as a whole, because results may have chosen which part of it is used
        return math.inf if unused(rule, entries) is None else _composed(rule.prices, delta)
    return min(_by_sums(entries, kept_delta(rule, delta)), _by_divergence(rule, entries, delta))


@lru_cache(maxsize=64)
def _composed(plan: tuple[Entry, ...], delta: float) -> float:
    return bounds.epsilon_of(plan, delta)


def pure_left(rule: Sums | Renyi, entries: Sequence[Entry], epsilon: float, delta: float) -> float:
    """Return about the largest pure epsilon that still fits into a budget beside the entries."""
    used = _by_sums(entries, kept_delta(rule, delta))
    rest = at_most(exact(epsilon) - exact(used)) if math.isfinite(used) else 0.0
    divergence = epsilon - _by_divergence(rule, entries, delta)
    if not isinstance(rule, Renyi) or divergence <= 0:
        return max(rest, 0.0)
    # find the pure epsilon that has this divergence, from below
    low, high, order = 0.0, divergence, 1 + rule.excess
    while high < 1e9 and renyi(PureDP(high), order) <= divergence:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if renyi(PureDP(middle), order) <= divergence else (low, middle)
    return max(rest, low)


def _by_sums(entries: Sequence[Entry], delta: float) -> float:
    """Add up the epsilons; infinity if an entry has none, or if the deltas exceed this one."""
    epsilon = lost = Fraction(0)
    for entry in entries:
        known = entry.guarantee
        pures = [exact(known.epsilon)] if isinstance(known, PureDP) else []
        caps = [exact(cap.epsilon) for event in entry.events if (cap := as_pure(event)) is not None]
        if caps and len(caps) == len(entry.events):
            pures.append(sum(caps, Fraction(0)))
        pure = min(pures, default=None)
        if isinstance(known, ApproxDP) and (
            pure is None or (pure > exact(known.epsilon) and delta > 0)
        ):
            epsilon += exact(known.epsilon) * entry.times
            lost += exact(known.delta) * entry.times
        elif pure is None:
            return math.inf
        else:
            epsilon += pure * entry.times
    return at_least(epsilon) if lost <= exact(delta) else math.inf


def share_used(rule: Sums | Renyi, entries: Sequence[Entry], epsilon: float, delta: float) -> float:
    """Return the used share of a budget, by the account that has more left; 1 is all of it."""
    share = _by_sums(entries, kept_delta(rule, delta)) / epsilon
    none = _by_divergence(rule, [], delta)
    if none < epsilon:
        share = min(share, (_by_divergence(rule, entries, delta) - none) / (epsilon - none))
    return share


def kept_delta(rule: Rule | None, delta: float) -> float:
    """Return the part of delta that is reserved for the deltas of releases."""
    return at_most(exact(delta) * exact(_KEPT)) if isinstance(rule, Renyi) else delta


def _by_divergence(rule: Sums | Renyi, entries: Sequence[Entry], delta: float) -> float:
    """Return epsilon by the divergence of one order, with the delta that kept shares leave."""
    if isinstance(rule, Sums) or delta <= 0:
        return math.inf
    total = bounds.composition(event_counts(entries))
    if total.lost > exact(kept_delta(rule, delta)):
        return math.inf
    converted = conversion_cost(np.array([rule.excess]), _converted(delta))
    return bounds.renyi_at(total, 1 + rule.excess) + float(converted[0])


def _converted(delta: float) -> float:
    """Return the part of delta that the kept shares leave for the conversion."""
    return at_most(exact(delta) * (1 - 2 * exact(_KEPT)))


def declared(offered: Any) -> tuple[Entry, ...]:
    """Read prices as entries, equal ones merged; each is a guarantee, or one with its events."""
    takes = "a list of guarantees, each alone or with a list of its events"
    if not isinstance(offered, Iterable) or isinstance(offered, str):
        raise GuaranteeError(f"prices={show(offered)}: prices takes {takes}.")
    counts: Counter[Entry] = Counter()
    for price in offered:
        guarantee, events = price if isinstance(price, tuple) and len(price) == 2 else (price, ())
        if not isinstance(events, Iterable):
            raise GuaranteeError(f"prices: takes {takes}.")
        entry = Entry("", priced(guarantee), tuple(events))
        require_agreement(entry.guarantee, entry.events)
        counts[entry] += 1
    if not counts:
        raise GuaranteeError("prices: takes one price or more.")
    return tuple(replace(entry, times=times) for entry, times in counts.items())


def unused(rule: DeclaredPrices, entries: Sequence[Entry]) -> Counter[Entry] | None:
    """Return the prices of a plan that these entries leave; None if no price covers one of them.

    Each entry takes the cheapest of the declared prices that cover it.
    """
    rest: Counter[Entry] = Counter()
    for price in rule.prices:
        rest[Entry("", price.guarantee, price.events)] += price.times
    for entry in entries:
        needed = entry.times
        covering = [
            price
            for price in rest
            if implies(entry.guarantee, price.guarantee)
            and (not price.events or Counter(price.events) == Counter(entry.events))
        ]
        for price in sorted(covering, key=lambda price: tuple(prices(price.guarantee).values())):
            taken = min(needed, rest[price])
            rest[price] -= taken
            needed -= taken
        if needed > 0:
            return None
    return +rest
