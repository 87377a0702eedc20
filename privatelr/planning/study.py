"""A planned study: design, request, and made-up records in place of the data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from privatelr import errors
from privatelr.design import DesignSpec
from privatelr.errors import ArgumentError, GuaranteeError
from privatelr.fitting import DoScale
from privatelr.mechanisms import Request
from privatelr.method import Method, perturbation
from privatelr.multinomial_model import several_classes
from privatelr.numerics import Loss
from privatelr.planning.made_up_records import Population
from privatelr.privacy import ZCDP, ApproxDP, PureDP
from privatelr.sources import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """All inputs of a forecast, none of which is private.

    Attributes
    ----------
    spec : DesignSpec
        The rows in scaled units, before they are standardised.
    loss : Loss
    request : Request
    n : int
        Number of records of the study.
    population : Population
    schema : Schema
    do_scale : str, bool or None
        As in `dplr`.
    worse : Population or None
        The population of the pessimistic guesses.
    """

    spec: DesignSpec
    loss: Loss
    request: Request
    n: int
    population: Population
    schema: Schema
    do_scale: DoScale = None
    worse: Population | None = None

    @property
    def method(self) -> Method:
        """The mechanism of a fit."""
        asked, prior = (self.request, self.schema, self.do_scale), self.spec.prior
        if self.classes:
            return several_classes(*asked)
        return perturbation(self.loss, *asked, prior=prior)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes of the response if there are several, the reference first; else none."""
        response = self.spec.response
        return response.classes if response.kind == "classes" else ()

    @property
    def named(self) -> list[tuple[Any, str]]:
        """Each coefficient as its class and its column; of two classes the class is None."""
        classes = self.classes[1:] or (None,)
        return [(of, name) for of in classes for name in self.spec.columns.names]

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the coefficients: those of the columns, or ``class: column`` for each class."""
        return tuple(name if of is None else f"{of}: {name}" for of, name in self.named)


def rows_of(study: Study, term: Any) -> list[int]:
    """The positions of a coefficient or of a term, or those of all but the intercept."""
    columns = study.spec.columns
    if term not in study.terms:
        places: dict[Any, Collection[int]] = {one.label: one.columns for one in columns.terms}
        places[None] = range(int(columns.has_intercept), len(columns.names))
        if term in places:
            p = len(columns.names)
            return [at for at in range(len(study.terms)) if at % p in places[term]] or [0]
        names = [*study.terms, *(label for label in places if label not in (None, *study.terms))]
        listed, end = ", ".join(map(repr, names)), errors.or_meant(term, names)
        raise ArgumentError(f"term={errors.show(term)}: term takes one of {listed}{end}")
    return [study.terms.index(term)]


class Counted(NamedTuple):
    """How many records count where some count less, or not at all; by guesses or by a pilot.

    Attributes
    ----------
    total : float
        What they add up to, in records that count fully. The noise is that of n of these.
    effective : float
        The number of records that count equally and have the same sampling errors (Kish).
    """

    total: float
    effective: float


def counted(study: Study) -> Counted | None:
    """How many records of a study count; None if each of them does."""
    if study.spec.weight is None:
        return None
    y = study.population.rows(study.spec).y
    weights = np.where(y == 0, 0.0, 1 / np.maximum(np.abs(y), 1.0) ** 2)
    total = float(weights.mean())
    square = float((weights**2).mean())
    return Counted(study.n * total, study.n * total**2 / square if square else 0.0)


def price_of(study: Study) -> tuple[str, float]:
    """The kind of the study's guarantee, ``"eps"`` or ``"rho"``, and its number."""
    match study.request.target:
        case ZCDP(rho=rho):
            return "rho", rho
        case PureDP(epsilon=epsilon) | ApproxDP(epsilon=epsilon):
            return "eps", epsilon
    raise GuaranteeError("eps=0: a plan without privacy has no epsilon to vary.")


def at_price(study: Study, price: float) -> Study:
    """The same study with another epsilon or rho."""
    target, currency = study.request.target, price_of(study)[0]
    changed: Any = {"rho" if currency == "rho" else "epsilon": price}
    return replace(study, request=replace(study.request, target=replace(target, **changed)))
