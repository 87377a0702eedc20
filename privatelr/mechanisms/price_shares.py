"""Dividing a price among the stages of a fit, by given shares or by the usual ones."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from privatelr import privacy
from privatelr.errors import GuaranteeError
from privatelr.mechanisms.calibration.lambda_rules import GAUSSIAN, LAPLACE, Kinds
from privatelr.mechanisms.request import COEFFICIENTS, INFERENCE, LENGTHS, ROC, SCALE, Spend
from privatelr.numerics import Loss
from privatelr.privacy.noise import DOWN, UP, gaussian_mu, mu_beside_pure

Division = tuple[dict[str, privacy.Guarantee], Kinds]
"""The part of a target for each stage, which `privacy.join` makes whole again, and the laws of
noise of the coefficients that the parts are meant for; none for all laws."""


def divide(
    target: privacy.Guarantee,
    spend: Spend,
    loss: Loss,
    *,
    scaled: bool = False,
    lengths: bool = False,
) -> list[Division]:
    """Divide a target by the shares of a request.

    Shares are of epsilon or of rho (`privatelr.privacy.split`). Under (epsilon, delta) there are
    two ways, and the calibration takes the one with less noise on the coefficients: a share is
    one of mu squared, or the coefficients have Laplace noise for their share of epsilon, and
    what is left is Gaussian. Both spend all of the target (scale.md 1). Beside coefficients, counts
    of scores have less Laplace than Gaussian noise, so pure shares of epsilon come first there. A
    released length takes its share of epsilon by itself, and the others divide what is left.

    Examples
    --------
    >>> from privatelr import PureDP
    >>> from privatelr.mechanisms import divide
    >>> from privatelr.numerics import find_loss
    >>> ((parts, kinds),) = divide(PureDP(1.0), "inference", find_loss("logistic"))
    >>> for stage, part in parts.items():
    ...     print(f"{stage}: {part}")
    coefficients: epsilon = 0.65 (pure)
    inference: epsilon = 0.35 (pure)
    """
    shares = shares_of(target, spend, loss, scaled=scaled, lengths=lengths)
    by_share = privacy.split(target, shares)
    if not isinstance(target, privacy.ApproxDP) or len(shares) == 1:
        return [(by_share, ())]
    parts, apart = dict(shares), dict[str, privacy.Guarantee]()
    share_of_length = parts.pop(LENGTHS, 0.0)
    if share_of_length:
        part = share_of_length * target.epsilon * DOWN
        apart[LENGTHS] = privacy.PureDP(part, target.neighbours)
        target = replace(target, epsilon=(target.epsilon - part) * DOWN)
    epsilon, delta = target.epsilon, target.delta
    first = parts.pop(COEFFICIENTS)
    pure = by_share[COEFFICIENTS].epsilon  # type: ignore[union-attr]
    mus = {
        GAUSSIAN: gaussian_mu(epsilon, delta) * math.sqrt(1 - first / (1 - share_of_length)),
        LAPLACE: mu_beside_pure(epsilon, delta, pure),
    }
    ways = [_shared(target, parts, mu, kinds) for kinds, mu in mus.items()]
    ways = [({**apart, **divided}, kinds) for divided, kinds in ways]
    if shares.keys() == {COEFFICIENTS, ROC} and epsilon > 0:
        ways.insert(0, (privacy.split(privacy.PureDP(epsilon, target.neighbours), shares), ()))
    return ways


def _shared(
    target: privacy.ApproxDP,
    shares: dict[str, float],
    mu: float,
    kinds: Kinds,
) -> Division:
    """Divide mu squared among the Gaussian stages; the coefficients share the target with them."""
    whole, total = sum(shares.values()), mu * mu / 2
    parts = {
        name: privacy.ZCDP(total * (share / whole), target.neighbours)
        for name, share in shares.items()
    }
    # enough for the parts as they were rounded
    mu = math.sqrt(2 * sum(part.rho for part in parts.values())) * UP
    rest = privacy.SharedApproxDP(target.epsilon, target.delta, target.neighbours, beside=mu)
    return {COEFFICIENTS: rest, **parts}, kinds


_SHARE_OF_LENGTHS, _SHARE_OF_RHO_OF_LENGTHS = 0.05, 0.01
"""The share of epsilon, or of rho, for the length of rows, which is one choice: of a small rho it
is of larger epsilon."""
SHARE_OF_SCALE = 0.1
"""The share of the price for the scale of columns; from .05 to .25 it matters little (scale.md)."""

_DIGITS = 15


def shares_of(
    target: privacy.Guarantee,
    spend: Spend,
    loss: Loss,
    *,
    scaled: bool = False,
    lengths: bool = False,
) -> dict[str, float]:
    """Return the share of each stage; a scale and a length without a share take their usual ones.

    Of the usual shares they take a part of each. Shares that are written out, for a scale or a ROC
    curve, stay as they are written, but for the coefficients', of which they take their part.

    Raises
    ------
    GuaranteeError
        If the scale has a share and is not released.

    Examples
    --------
    >>> from privatelr import ZCDP
    >>> from privatelr.mechanisms import shares_of
    >>> from privatelr.numerics import find_loss
    >>> shares_of(ZCDP(0.1), "inference", find_loss("logistic"))
    {'coefficients': 0.7, 'inference': 0.3}
    >>> shares_of(ZCDP(0.1), "inference", find_loss("logistic"), scaled=True)
    {'scale': 0.1, 'coefficients': 0.63, 'inference': 0.27}
    """
    shares = usual_shares(target, loss) if spend == "inference" else dict(spend)
    if not scaled and SCALE in shares:
        raise GuaranteeError(
            "spend: the scale of the columns has a share; do_scale='private' releases it."
        )
    if not lengths and LENGTHS in shares:
        raise GuaranteeError(
            "spend: 'lengths' has a share, and no length of rows is released; leave it out. A "
            "length is released by dplr and dpmultinom with the scale of the columns, without "
            "row_norm."
        )
    of_lengths = _SHARE_OF_LENGTHS
    if isinstance(target, privacy.ZCDP):
        of_lengths = _SHARE_OF_RHO_OF_LENGTHS
    before = {SCALE: SHARE_OF_SCALE} if scaled and SCALE not in shares else {}
    before |= {LENGTHS: of_lengths} if lengths and LENGTHS not in shares else {}
    if not before:
        return shares
    if ROC in shares or SCALE in shares or LENGTHS in shares:
        first = shares.pop(COEFFICIENTS)
        before = {name: share * first for name, share in before.items()}
        rest = Fraction(1)
    else:
        rest = 1 - sum(map(privacy.exact, before.values()), Fraction(0))
    # decimals that a double holds, so that what is left makes the sum 1 as it is read again
    kept = {name: privacy.exact(share) for name, share in before.items()}
    kept |= {name: privacy.exact(share) * rest for name, share in shares.items()}
    parts = {name: round(share, _DIGITS) for name, share in kept.items()}
    parts[COEFFICIENTS] = parts.get(COEFFICIENTS, Fraction(0)) + 1 - sum(parts.values())
    return {name: float(part) for name, part in parts.items()}


def usual_shares(target: privacy.Guarantee, loss: Loss) -> dict[str, float]:
    """Return the shares that give the shortest intervals in the studies of inference.md 4.5 and 9.

    A loss without a joint bound has larger curvature, so its moments need more noise. Under pure
    epsilon they therefore get half of the price.
    """
    if not isinstance(target, privacy.PureDP | privacy.NonPrivate):
        return {COEFFICIENTS: 0.7, INFERENCE: 0.3}
    if loss.joint_factor is None:
        return {COEFFICIENTS: 0.5, INFERENCE: 0.5}
    return {COEFFICIENTS: 0.65, INFERENCE: 0.35}
