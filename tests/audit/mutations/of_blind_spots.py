"""Planted bugs that an audit once passed over, and others of the same five kinds.

The kinds are noise that nobody drew, stages that were judged by a pure claim alone or by the
function that holds the bug, bookkeeping that the audit shared, clips that no record reached, and
where bits come from.
"""

from __future__ import annotations

import math
import random
import secrets
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from privatelr.audit.accounts import audit_small_ledgers
from privatelr.audit.neighbouring_tables import (
    audit_persons_of_fits,
    audit_strata,
)
from privatelr.audit.sampling.draws_and_releases import audit_draws, audit_source
from privatelr.mechanisms import perturbation, registry
from privatelr.mechanisms.calibration import proven_noise
from privatelr.mechanisms.stages import histogram as histogram_stage
from privatelr.mechanisms.stages import matrices as matrix_stage
from privatelr.mechanisms.stages import scale as scale_stage
from privatelr.mechanisms.stages.scale import ScaleCalibration
from privatelr.numerics.solve import softmax_minimum
from privatelr.planning import suggestions
from privatelr.privacy import ZCDP, ApproxDP, GaussianEvent, PureDP, events
from privatelr.privacy import noise as laws
from privatelr.privacy.accounting import composition_bounds, filters, statement
from privatelr.privacy.noise import gaussian_delta, noise_laws, randomness
from tests.audit.mutations.planted import RELEASES, Look, Mutation, list_bug, long, noise

OF_BLIND_SPOTS: list[Mutation] = []
bug = partial(list_bug, OF_BLIND_SPOTS)


def drawn(only: str, count: int = 300) -> Look:
    """The audit of draws whose name contains `only`."""
    return Look(f"draws, {only}", lambda rng: audit_draws(rng, count, only))


def source(only: str) -> Look:
    """The audit of the source of bits of what has this name."""
    return Look(f"source, {only}", lambda rng: audit_source(only))


SMALL_LEDGERS = Look("small ledgers", audit_small_ledgers)
STRATA = Look("strata of tables", lambda rng: audit_strata(1.0))
PERSONS = Look("fits of persons", lambda rng: audit_persons_of_fits(1.0))

# -- noise that nobody drew -----------------------------------------------------------------------

_COPIES = (laws.CopiedNoise, "transform")


@bug("every class has the same noise", _COPIES, drawn("3 classes, 2 columns"))
def _(honest: Any, law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
    return law.each.transform(uniforms, signs, arithmetic) * law.copies


@bug("classes beyond the third have the noise of others", _COPIES, drawn("7 classes, 2 columns"))
def _(honest: Any, law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
    found, d = honest(law, uniforms, signs, arithmetic), law.each.dimension
    return [found[place % (3 * d)] for place in range(len(found))]


@bug("a minimum takes the noise of one class", softmax_minimum.certified_softmax, RELEASES)
def _(
    honest: Any, rows: Any, classes: int, penalty: float, tilt: Any, tau: float, enclose: Any
) -> Any:
    first = slice(rows.d)
    one = (tilt[first].tolist() * classes, tau, lambda bits: enclose(bits)[first] * classes)
    return honest(rows, classes, penalty, np.array(one[0]), *one[1:])


@bug("two normal numbers have one size", noise_laws.normals, drawn("coefficients, Gaussian"))
def _(honest: Any, uniforms: Any, count: int, arithmetic: Any) -> Any:
    found = honest(uniforms, count, arithmetic)
    return [x if place % 2 == 0 else -found[place - 1] for place, x in enumerate(found)]


@bug("all columns of a block have one sign", (laws.BlockLaplace, "transform"), drawn("5 columns"))
def _(honest: Any, law: Any, uniforms: Any, signs: Any, arithmetic: Any) -> Any:
    return honest(law, uniforms, list(signs[:1]) * len(signs), arithmetic)


@bug("counts have the noise of the scale", registry.draw_all, drawn("scale, Gaussian"))
def _(honest: Any, plan: Any, source: Any) -> Any:
    found = honest(plan, source)
    if plan.histogram is None or plan.scale is None:
        return found
    counts, scale = found.others["roc"].nearest(), found.others["scale"].nearest()
    counts[: len(scale)] = scale / plan.scale.noise.scale * plan.histogram.noise.scale
    return replace(found, others={**found.others, "roc": laws.FloatDraw(counts)})


# -- stages under every promise -------------------------------------------------------------------


@bug(
    "one of two cases is forgotten beside Gaussian stages",
    gaussian_delta.log_delta_beside_pure,
    noise("inference, epsilon = 1, delta = 1e-06"),
)
def _(honest: Any, epsilon: float, pure: float, mu: float) -> float:
    shown = -math.log1p(math.exp(-pure)) + gaussian_delta.log_delta(epsilon - pure, mu)
    return shown - math.log(2)


@bug(
    "Gaussian counts of two strata move as those of one",
    (histogram_stage, "_moved"),
    STRATA,
    noise("counts, rho*"),
)
def _(honest: Any, touched: int) -> Any:
    return honest(1)


@bug(
    "a tilt leaves too little of delta to other stages",
    (registry, "_shared"),
    noise("inference, epsilon = 1, delta = 1e-06"),
)
def _(honest: Any, *given: Any) -> Any:
    parts, kinds = honest(*given)
    tilt = parts["coefficients"]
    return {**parts, "coefficients": replace(tilt, beside=0.9 * tilt.beside)}, kinds


@bug(
    "what minimisation leaves open in strata is counted once in rho",
    proven_noise.shield_for,
    noise("coefficients, rho*"),
)
def _(honest: Any, problem: Any, target: Any, *given: Any) -> Any:
    once = replace(problem, touched=1) if isinstance(target, ZCDP) else problem
    return honest(once, target, *given)


@bug(
    "the curvature of several classes has rank one under Gaussian noise",
    events.softmax_curvature_cost,
    noise("coefficients, epsilon = 1, delta = 0.01"),
)
def _(honest: Any, kappa: float, classes: int) -> Any:
    return honest(kappa, classes) / (classes - 1)


@bug(
    "Laplace noise on matrices of strata hides one length",
    matrix_stage.moments_sensitivity,
    noise("inference, rho*"),
)
def _(honest: Any, problem: Any, typical: Any = None, law: Any = None) -> Any:
    return honest(problem, typical)


@bug(
    "a factor counts once in what a record moves the scale",
    scale_stage.scale_sensitivity,
    noise("scale, rho*"),
    long("factors, zCDP"),
)
def _(honest: Any, facts: Any) -> Any:
    return honest(facts) * math.sqrt(5 / 6) if len(facts.groups) > 1 else honest(facts)


@bug(
    "a ledger forgets the first order of a tilt", (events.TiltEvent, "first_order"), noise("tilts")
)
def _(honest: Any, event: Any) -> float:
    return 0.0


# -- composition ----------------------------------------------------------------------------------


@bug("deltas are added up without times", (filters, "_by_sums"), SMALL_LEDGERS)
def _(honest: Any, entries: Any, delta: float) -> Any:
    once = sum(e.guarantee.delta for e in entries if isinstance(e.guarantee, ApproxDP))
    return honest(entries, 1.0) if once <= delta else math.inf


def _counted(change: Any) -> Any:
    """The composition of events whose counts `change` gets wrong."""

    def composition(honest: Any, counts: Any) -> Any:
        return honest({event: change(event, times) for event, times in counts.items()})

    return composition


for _name, _kind in (("zCDP", ZCDP), ("Gaussian", GaussianEvent), ("pure", PureDP)):
    bug(
        f"a {_name} release that is made often counts once",
        composition_bounds.composition,
        SMALL_LEDGERS,
    )(_counted(lambda event, times, kind=_kind: 1 if isinstance(event, kind) else times))


@bug("a part of the rows does not pay for all of them", (statement, "_by_part"), SMALL_LEDGERS)
def _(honest: Any, entries: Any) -> Any:
    parts = dict.fromkeys(entry.part for entry in entries)
    return [[entry for entry in entries if entry.part == part] for part in parts]


@bug("deltas beside a divergence are not added up", composition_bounds.composition, SMALL_LEDGERS)
def _(honest: Any, counts: Any) -> Any:
    found = honest(counts)
    lost = max((e.delta for e in counts if isinstance(e, ApproxDP)), default=0.0)
    return replace(found, lost=Fraction(lost))


@bug("a group costs rho by its size, and not by the square", events.grouped, SMALL_LEDGERS)
def _(honest: Any, event: Any, rows: int) -> Any:
    return replace(event, rho=rows * event.rho) if isinstance(event, ZCDP) else honest(event, rows)


# -- records as long as clips allow ---------------------------------------------------------------


def _clipped(factor: float, honest: Any, rows: Any, coef: Any, made: Any, *units: Any) -> Any:
    """Matrices with a clip that is wider by this factor."""
    facts = {"problem": made.problem, "typical": made.typical, "balance": made.balance}
    wide = {"counted": lambda traces: made.counted(traces / factor)}
    return honest(rows, coef, SimpleNamespace(**facts, **wide), *units)


_MATRICES = perturbation.mean_moments
bug("the clip of the matrices is twice as wide", _MATRICES, long("matrices, *"))(
    partial(_clipped, 2.0)
)


@bug("scores are not clipped", _MATRICES, long("matrices, *"))
def _(honest: Any, *given: Any) -> Any:
    free = _clipped(math.inf, honest, *given)
    return np.concatenate([np.split(honest(*given), 2)[0], np.split(free, 2)[1]])


@bug(
    "squares of the scale are weighed under pure epsilon",
    (ScaleCalibration, "weight"),
    long("*middle, pure"),
)
def _(honest: Any, made: Any) -> float:
    return 1.66


@bug(
    "persons count in cells by roots",
    histogram_stage.counts_of_shares,
    long("persons*"),
)
def _(honest: Any, cells: Any, shares: Any, bins: int, persons: int) -> Any:
    return honest(cells, np.sqrt(shares), bins, persons)


@bug("suggested bounds count roots of shares", (suggestions, "_read_persons"), PERSONS)
def _(honest: Any, *given: Any) -> Any:
    found = honest(*given)
    return replace(found, batch=replace(found.batch, shares=np.sqrt(found.batch.shares)))


# -- where bits come from -------------------------------------------------------------------------

_PLAIN = source("2 classes, 2 columns, coefficients, spherical")
_kept: dict[int, int] = {}


def _thin(count: int) -> int:
    return secrets.randbits(16) << (count - 16) if count > 16 else secrets.randbits(count)


for _name, _bits in (
    ("bits come from Python's generator", random.getrandbits),
    ("bits come from a generator of their own", random.Random(7).getrandbits),
    ("sixteen bits are fresh and others are zero", _thin),
    ("bits are drawn once", lambda count: _kept.setdefault(count, secrets.randbits(count))),
):
    bug(_name, (randomness, "secrets"), _PLAIN)(SimpleNamespace(randbits=_bits))


@bug(
    "uniform numbers come from NumPy's generator",
    (randomness.SystemRandomness, "uniforms"),
    source("uniform numbers"),
)
def _(honest: Any, whole: Any, count: int) -> Any:
    return np.random.random(count)  # noqa: NPY002
