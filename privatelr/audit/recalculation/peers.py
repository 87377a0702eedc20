"""What others state about the same numbers: dp-accounting of Google, and OpenDP.

Each is asked what the noise of this package is worth, in its own terms and with the sensitivity
put in by hand: the noise multiplier of a neighbour who is replaced is the whole distance over the
deviation, so that no relation of neighbours is left for a library to read otherwise.
"""

from __future__ import annotations

import math
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from privatelr.audit.checks import MISSING, Check, guarded
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms.calibration import laws_hiding
from privatelr.privacy import ZCDP, ApproxDP, PureDP, to_approximate, to_zcdp
from privatelr.privacy.accounting import Ledger
from privatelr.privacy.noise import GaussianNoise, SphericalLaplace, gaussian_epsilon, log_delta
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import dp_accounting
    import opendp.prelude as opendp
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as distributions
    from dp_accounting.pld import privacy_loss_mechanism as losses
    from dp_accounting.rdp import rdp_privacy_accountant as renyi
else:
    dp_accounting = lazy_import("dp_accounting")
    common = lazy_import("dp_accounting.pld.common")
    distributions = lazy_import("dp_accounting.pld.privacy_loss_distribution")
    losses = lazy_import("dp_accounting.pld.privacy_loss_mechanism")
    opendp = lazy_import("opendp.prelude")
    renyi = lazy_import("dp_accounting.rdp.rdp_privacy_accountant")

PART = "peers"
_SAME, _BY_ORDERS, _BY_GRID = 1e-6, 2e-3, 1e-3
"""Relative differences where both are exact; where a library tries orders; where it has a grid."""
_DISTANCE, _DELTA = 0.7, 1e-6
_EPSILONS = (0.1, 1.0, 3.0)
_ORDERS = tuple(1 + np.geomspace(1e-3, 1e4, 4000))
_RELEASES, _EACH = 20, 0.1


def audit_peers() -> Iterator[Check]:
    """Checks against each library; where it is absent, one line says so."""
    for module, name, work in (
        ("dp_accounting", "dp-accounting", _google),
        ("opendp", "OpenDP", _opendp),
    ):
        if find_spec(module) is None:
            yield Check(PART, f"{name}: all that it states too", failure=MISSING)
        else:
            yield from guarded(PART, name, work)


def _apart(subject: str, pairs: list[tuple[float, float]], most: float) -> Check:
    """The largest relative difference of numbers in pairs, over the most there may be."""
    differences = [abs(ours / theirs - 1) for ours, theirs in pairs]
    return Check(PART, f"{subject}, relative difference", max(differences), most)


def _google() -> Iterator[Check]:
    gaussian: Callable[[float], Any] = losses.GaussianPrivacyLoss
    sds = {epsilon: _gaussian_sd(ApproxDP(epsilon, _DELTA)) for epsilon in _EPSILONS}
    yield _apart(
        "dp-accounting: delta of Gaussian noise for an (epsilon, delta)",
        [
            (_DELTA, gaussian(sd / _DISTANCE).get_delta_for_epsilon(epsilon))
            for epsilon, sd in sds.items()
        ],
        1e-3,  # the deviation is rounded up
    )
    yield _apart(
        "dp-accounting: the profile of a Gaussian",
        [
            (math.exp(log_delta(epsilon, mu)), gaussian(1 / mu).get_delta_for_epsilon(epsilon))
            for epsilon in (0.0, 0.5, 2.0)
            for mu in (0.2, 1.0, 3.0)
        ],
        _SAME,
    )
    epsilons = {mu: gaussian_epsilon(mu, _DELTA) for mu in (0.2, 1.0, 3.0)}
    yield _apart(
        "dp-accounting: delta of a Gaussian at an epsilon for it",
        [
            (_DELTA, gaussian(1 / mu).get_delta_for_epsilon(epsilon))
            for mu, epsilon in epsilons.items()
        ],
        _SAME,
    )
    yield _apart(
        "dp-accounting: epsilon of Laplace noise",
        [
            (epsilon, losses.LaplacePrivacyLoss(_scale(epsilon) / _DISTANCE).privacy_loss(-1e9))
            for epsilon in _EPSILONS
        ],
        _SAME,
    )
    orders = np.array(_ORDERS)
    yield _apart(
        "dp-accounting: rho as an (epsilon, delta)",
        [
            (
                to_approximate(ZCDP(rho), _DELTA).epsilon,
                renyi.compute_epsilon(_ORDERS, (rho * orders).tolist(), _DELTA)[0],
            )
            for rho in (0.01, 0.1, 1.0)
        ],
        _BY_ORDERS,
    )
    yield _apart("dp-accounting: rho of a Gaussian", list(_by_renyi()), _BY_ORDERS)
    yield Check(
        PART,
        "dp-accounting: randomised responses, Renyi epsilon over that of their rho",
        max(theirs / ours for ours, theirs in _of_response()),
        1 + _BY_ORDERS,
    )
    yield _composed()


def _by_renyi() -> Iterator[tuple[float, float]]:
    """Epsilon of zCDP noise by their Renyi accountant; replacement is in the multiplier."""
    for rho in (0.01, 0.1, 1.0):
        accountant = renyi.RdpAccountant(orders=_ORDERS)
        sd = _gaussian_sd(ZCDP(rho))
        accountant.compose(dp_accounting.GaussianDpEvent(sd / _DISTANCE))
        yield to_approximate(ZCDP(rho), _DELTA).epsilon, accountant.get_epsilon(_DELTA)


def _of_response() -> Iterator[tuple[float, float]]:
    """Epsilon at delta of randomised response, many times, by rho and by their Renyi accountant."""
    for epsilon in (0.05, 0.3):
        accountant = renyi.RdpAccountant(
            orders=_ORDERS[::20], neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
        )
        heads = 2 / (1 + math.exp(epsilon))
        event = dp_accounting.RandomizedResponseDpEvent(heads, 2)
        accountant.compose(event, 1000)
        rho = 1000 * to_zcdp(PureDP(epsilon)).rho
        yield to_approximate(ZCDP(rho), _DELTA).epsilon, accountant.get_epsilon(_DELTA)


def _composed() -> Check:
    """A ledger counts at least what their exact composition of as many responses does."""
    ledger = Ledger(100.0, _DELTA)
    ledger.charge(PureDP(_EACH), (), "audit", times=_RELEASES)
    told = common.DifferentialPrivacyParameters(_EACH, 0.0)
    once = distributions.from_privacy_parameters(told)
    exact = once.self_compose(_RELEASES).get_epsilon_for_delta(_DELTA)
    return Check(
        PART,
        f"dp-accounting: {_RELEASES} pure releases, exact epsilon over what a ledger counts",
        exact / ledger.spent(),
        1 + _BY_GRID,
    )


def _opendp() -> Iterator[Check]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its versions disagree about the name of a feature
        opendp.enable_features("contrib", "floating-point", "honest-but-curious")
    entry = opendp.atom_domain(T=float, nan=False)
    number = entry, opendp.absolute_distance(T=float)
    vector = opendp.vector_domain(entry), opendp.l2_distance(T=float)
    scores = opendp.vector_domain(entry), opendp.linf_distance(T=float)
    yield _apart(
        "OpenDP: epsilon of Laplace noise",
        [
            (epsilon, _price(opendp.m.make_laplace(*number, scale=_scale(epsilon))))
            for epsilon in _EPSILONS
        ],
        _SAME,
    )
    sds = {rho: _gaussian_sd(ZCDP(rho)) for rho in (0.01, 0.5, 2.0)}
    made = {rho: opendp.m.make_gaussian(*vector, scale=sd) for rho, sd in sds.items()}
    yield _apart(
        "OpenDP: rho of Gaussian noise",
        [(rho, _price(mechanism)) for rho, mechanism in made.items()],
        _SAME,
    )
    yield _apart(
        "OpenDP: rho as an (epsilon, delta)",
        [
            (
                to_approximate(ZCDP(rho), _DELTA).epsilon,
                _price(opendp.c.make_zCDP_to_approxDP(mechanism)).epsilon(_DELTA),
            )
            for rho, mechanism in made.items()
        ],
        _BY_ORDERS,
    )
    yield _apart(
        "OpenDP: epsilon of the largest of noisy scores",
        [(epsilon, _noisy_max(scores, epsilon)) for epsilon in _EPSILONS],
        _SAME,
    )


def _price(measurement: Any) -> Any:
    """What a measurement costs by its own map."""
    return measurement.map(_DISTANCE)


def _noisy_max(scores: tuple[Any, Any], epsilon: float) -> float:
    """Epsilon of a choice between scores that move up or down by the distance."""
    choice = ExponentialMechanism(epsilon, 2 * _DISTANCE)
    # what the scores are multiplied by, from the law itself
    log_odds = np.diff(choice.log_probabilities(np.array([0.0, 1.0])))
    divergence = opendp.max_divergence()
    made = opendp.m.make_noisy_max(*scores, divergence, scale=float(1 / log_odds[0]))
    return float(_price(made))


def _scale(epsilon: float) -> float:
    (noise,) = laws_hiding(_DISTANCE, 1, PureDP(epsilon))
    assert isinstance(noise, SphericalLaplace)
    return 1 / noise.rate


def _gaussian_sd(target: ZCDP | ApproxDP) -> float:
    laws = laws_hiding(_DISTANCE, 1, target)
    return next(law.sd for law in laws if isinstance(law, GaussianNoise))
