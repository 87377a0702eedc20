"""What others state about the same numbers: dp-accounting of Google, and OpenDP.

Each is asked what the noise of this package is worth, in its own terms and with the sensitivity
put in by hand: the noise multiplier of a neighbour who is replaced is the whole distance over the
deviation, so that no relation of neighbours is left for a library to read otherwise.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from privatelr.audit.checks import MISSING, Check, guarded
from privatelr.mechanisms.calibration import laws_hiding
from privatelr.privacy import ZCDP, ApproxDP, PureDP, to_approximate, to_zcdp
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import GaussianNoise, gaussian_epsilon, log_delta
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism

_SAME, _BY_ORDERS, _BY_GRID = 1e-6, 2e-3, 1e-3
"""Relative differences where both are exact; where a library tries orders; where it has a grid."""
_DISTANCE, _DELTA = 0.7, 1e-6
_EPSILONS, _RHOS, _MUS = (0.1, 1.0, 3.0), (0.01, 0.1, 1.0), (0.2, 1.0, 3.0)
_ORDERS = 1 + np.geomspace(1e-3, 1e4, 4000)
_RELEASES, _EACH = 20, 0.1


def audit_peers() -> Iterator[Check]:
    """Checks against each library; where it is absent, one line says so."""
    for module, name, work in (
        ("dp_accounting", "dp-accounting", _google),
        ("opendp", "OpenDP", _opendp),
    ):
        if find_spec(module) is None:
            yield Check("peers", f"{name}: all that it states too", failure=MISSING)
        else:
            yield from guarded("peers", name, work)


def _apart(subject: str, pairs: list[tuple[float, float]], most: float = _SAME) -> Check:
    """The largest relative difference of numbers in pairs, over the most there may be."""
    differences = [abs(ours / theirs - 1) for ours, theirs in pairs]
    return Check("peers", f"{subject}, relative difference", max(differences), most)


def _google() -> Iterator[Check]:
    from dp_accounting.pld import common
    from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss, LaplacePrivacyLoss
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    def delta(multiplier: float, epsilon: float) -> Any:
        return GaussianPrivacyLoss(multiplier).get_delta_for_epsilon(epsilon)

    yield _apart(
        "dp-accounting: delta of Gaussian noise for an (epsilon, delta)",
        [(_DELTA, delta(_gaussian_sd(ApproxDP(e, _DELTA)) / _DISTANCE, e)) for e in _EPSILONS],
        1e-3,  # the deviation is rounded up
    )
    yield _apart(
        "dp-accounting: the profile of a Gaussian",
        [(math.exp(log_delta(e, mu)), delta(1 / mu, e)) for e in (0.0, 0.5, 2.0) for mu in _MUS],
    )
    yield _apart(
        "dp-accounting: delta of a Gaussian at an epsilon for it",
        [(_DELTA, delta(1 / mu, gaussian_epsilon(mu, _DELTA))) for mu in _MUS],
    )
    yield _apart(
        "dp-accounting: epsilon of Laplace noise",
        [(e, LaplacePrivacyLoss(_scale(e) / _DISTANCE).privacy_loss(-1e9)) for e in _EPSILONS],
    )
    yield _apart(
        "dp-accounting: rho as an (epsilon, delta)",
        [
            (_epsilon(rho), compute_epsilon(_ORDERS.tolist(), (rho * _ORDERS).tolist(), _DELTA)[0])
            for rho in _RHOS
        ],
        _BY_ORDERS,
    )
    yield from _by_renyi()
    # a ledger counts at least what their exact composition of as many responses does
    ledger = Ledger(100.0, _DELTA)
    ledger.charge(PureDP(_EACH), (), "audit", times=_RELEASES)
    once = from_privacy_parameters(common.DifferentialPrivacyParameters(_EACH, 0.0))
    exact = once.self_compose(_RELEASES).get_epsilon_for_delta(_DELTA)
    subject = f"dp-accounting: {_RELEASES} pure releases, exact epsilon over what a ledger counts"
    yield Check("peers", subject, exact / ledger.spent(), 1 + _BY_GRID)


def _by_renyi() -> Iterator[Check]:
    """Epsilon at delta by Google's Renyi accountant; replacement is in the multiplier."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, RandomizedResponseDpEvent
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    gaussians, responses = [], []
    for rho in _RHOS:
        event = GaussianDpEvent(_gaussian_sd(ZCDP(rho)) / _DISTANCE)
        accountant = RdpAccountant(orders=_ORDERS.tolist()).compose(event)
        gaussians.append((_epsilon(rho), accountant.get_epsilon(_DELTA)))
    yield _apart("dp-accounting: rho of a Gaussian", gaussians, _BY_ORDERS)
    for epsilon in (0.05, 0.3):
        event = RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2)
        accountant = RdpAccountant(_ORDERS[::20].tolist(), NeighboringRelation.REPLACE_ONE)
        theirs = accountant.compose(event, 1000).get_epsilon(_DELTA)
        responses.append(theirs / _epsilon(1000 * to_zcdp(PureDP(epsilon)).rho))
    subject = "dp-accounting: randomised responses, Renyi epsilon over that of their rho"
    yield Check("peers", subject, max(responses), 1 + _BY_ORDERS)


def _opendp() -> Iterator[Check]:
    from opendp import prelude

    opendp: Any = prelude  # its maps have no types
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its versions disagree about the name of a feature
        opendp.enable_features("contrib", "floating-point", "honest-but-curious")
    entry = opendp.atom_domain(T=float, nan=False)
    number = entry, opendp.absolute_distance(T=float)
    vector = opendp.vector_domain(entry), opendp.l2_distance(T=float)
    scores = opendp.vector_domain(entry), opendp.linf_distance(T=float), opendp.max_divergence()
    yield _apart(
        "OpenDP: epsilon of Laplace noise",
        [(e, opendp.m.make_laplace(*number, scale=_scale(e)).map(_DISTANCE)) for e in _EPSILONS],
    )
    sds = {rho: _gaussian_sd(ZCDP(rho)) for rho in (0.01, 0.5, 2.0)}
    made = {rho: opendp.m.make_gaussian(*vector, scale=sd) for rho, sd in sds.items()}
    yield _apart(
        "OpenDP: rho of Gaussian noise",
        [(rho, mechanism.map(_DISTANCE)) for rho, mechanism in made.items()],
    )
    yield _apart(
        "OpenDP: rho as an (epsilon, delta)",
        [
            (_epsilon(rho), opendp.c.make_zCDP_to_approxDP(each).map(_DISTANCE).epsilon(_DELTA))
            for rho, each in made.items()
        ],
        _BY_ORDERS,
    )
    largest = []
    for epsilon in _EPSILONS:  # of a choice between scores that move up or down by the distance
        choice = ExponentialMechanism(epsilon, 2 * _DISTANCE)
        # what the scores are multiplied by, from the law itself
        log_odds = np.diff(choice.log_probabilities(np.array([0.0, 1.0])))
        noisy = opendp.m.make_noisy_max(*scores, scale=float(1 / log_odds[0]))
        largest.append((epsilon, float(noisy.map(_DISTANCE))))
    yield _apart("OpenDP: epsilon of the largest of noisy scores", largest)


def _scale(epsilon: float) -> float:
    """Of the Laplace noise that hides the distance."""
    (noise,) = laws_hiding(_DISTANCE, 1, PureDP(epsilon))
    return 1 / noise.rate  # type: ignore[attr-defined,no-any-return]


def _gaussian_sd(target: ZCDP | ApproxDP) -> float:
    laws = laws_hiding(_DISTANCE, 1, target)
    return next(law.sd for law in laws if isinstance(law, GaussianNoise))


def _epsilon(rho: float) -> float:
    return to_approximate(ZCDP(rho), _DELTA).epsilon
