"""The lines of a page about what a formula has beside its terms, and about a prior."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from privatelr.design import AnySpec
from privatelr.errors import listed
from privatelr.privacy import REPLACE_PERSON, Guarantee, NonPrivate, compose

Facts = list[tuple[str, str]]


def beyond_promise(spec: AnySpec) -> str:
    """What a promise leaves out because of the prior: records of an earlier fit without one."""
    if spec.prior is None or not spec.prior.uncovered:
        return ""
    return "records of the earlier fit behind the prior are not covered, as it has no guarantee"


def paid_before(specs: Iterable[Any], guarantee: Guarantee, what: str = "the fit") -> Facts:
    """What was paid for bounds and levels apart from fits, and the promise of all of it.

    What several of the fits use was paid once. The guarantee is that of `what`, such as all fits.
    """
    paid = [*dict.fromkeys(one for spec in specs for one in getattr(spec, "paid", ()))]
    facts = [
        (one.kind.capitalize(), f"of {listed(one.columns, 6)} {_price_of(one)}") for one in paid
    ]
    if not facts:
        return []
    prices = [guarantee, *(one.guarantee for one in paid)]
    if any(isinstance(one, NonPrivate) for one in prices):
        words = f"no promise for {what} and these together, since not all of them have one"
    elif len({one.neighbours for one in prices}) > 1:
        words = (
            "no promise in one number, since some of this is about records and some about persons; "
            "suggest_bounds and levels_from take the person= of the fit"
        )
    else:
        words = f"{compose(prices)}, for {what} and these, if they are of the same data"
    return [*facts, ("In all", words)]


def _price_of(one: Any) -> str:
    who = "m = {} persons" if one.guarantee.neighbours is REPLACE_PERSON else "n = {} records"
    if isinstance(one.guarantee, NonPrivate):
        return f"have no promise ({one.guarantee}), of {who.format(one.n)}"
    return f"were paid separately: {one.guarantee}, of {who.format(one.n)}"


def sentences_of_paid(specs: Iterable[Any], guarantee: Guarantee) -> list[str]:
    """The same about several fits as sentences, for pages without a list of facts."""
    facts = paid_before(specs, guarantee, "the fits")
    return [f"{label}{':' * (label == 'In all')} {words}." for label, words in facts]


def beside_terms(spec: AnySpec) -> Facts:
    """What stands beside the terms: offsets, which records count and how much, and a prior."""
    facts, weight = [], spec.weight
    about_persons = getattr(spec.formula, "person", None) is not None
    counted = "their persons belong to m" if about_persons else "belong to n"
    if spec.offsets:
        ranges = ((part.expression.label, *part.interval) for part in spec.offsets)
        words = ", ".join(
            f"{label} between {low:.3g} and {high:.3g}" for label, low, high in ranges
        )
        facts.append(("Offset", f"{words}, by declared bounds; it needs no noise of its own"))
    if weight is not None and weight.subset is not None:
        words = f"records for which {weight.subset.label}; the others are rows of zeros"
        facts.append(("Subset", f"{words}, and {counted}"))
    if weight is not None and weight.stratum is not None:
        by = weight.stratum
        words = f"{by.column} = {by.level}; records of other levels are rows of zeros"
        count = len(spec.variables[by.column].levels)
        paid = f"the price is that of the fits to all {count} levels together"
        facts.append(("Stratum", f"{words}, and {counted}; {paid}"))
    if weight is not None and weight.factor is not None:
        used = weight.factor.expression
        share = f"{used.label if used.bare() else f'({used.label})'} / {weight.most:.3g}"
        words = f"a record counts {share}, by declared bounds; far less than 1 wastes price"
        facts.append(("Weights", words))
    if spec.prior is not None:
        sds = {name: f" (sd {sd:.3g})" for name, sd in spec.prior.sds.items()}
        means = [
            f"{name} = {mean:.4g}{sds.get(name, '')}" for name, mean in spec.prior.means.items()
        ]
        shown = ", ".join(means[:6]) + (", ..." if len(means) > 6 else "")
        words = f"the penalty draws to {shown}, {spec.prior.source}, which is taken as public"
        facts.append(("Prior", words))
    return facts
