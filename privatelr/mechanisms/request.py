"""The request of a user (price, shares, lambda), checked before n, d and R are known.

A delta of ``1/n`` does not protect anyone: publishing one record that was picked at random
satisfies (0, 1/n)-privacy for every record.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

from privatelr import privacy
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    PrivacyWarning,
    listed,
    or_meant,
    require_choice,
    require_flag,
    require_number,
    show,
)
from privatelr.mechanisms.calibration.lambda_rules import (
    LAMBDA_RULES,
    LambdaRule,
    SmallLambda,
)
from privatelr.mechanisms.calibration.pure import ANALYSES, Analysis
from privatelr.privacy.accounting import Account, account_with
from privatelr.types import Placement

if TYPE_CHECKING:
    from privatelr.mechanisms.stages.stage import Stage

USUAL_DELTA = 1e-6
"""The default delta of a request, a probability; it causes no warning if it is below ``1/n``."""


def _doubts(delta: float, n: int) -> tuple[str, str] | None:
    """Return the limit that a delta exceeds and a remedy, if it permits publishing a record."""
    if delta < 1 / n and delta * n < 1:  # the double nearest to 1/n may be on either side
        return None
    far_below = 10.0 ** math.floor(math.log10(0.01 / n))  # such a delta causes no warning
    return f"1/n = {1 / n:.3g}", f"count as private; take {far_below:g}, or less."


def require_below_one_record(target: privacy.Guarantee, n: int) -> None:
    """Refuse a delta that would allow publishing one random record."""
    if isinstance(target, privacy.ApproxDP) and (doubts := _doubts(target.delta, n)):
        raise GuaranteeError(
            f"delta={target.delta:g}: delta takes a number below {doubts[0]}, because at 1/n "
            f"publishing one random record would {doubts[1]}"
        )


def warn_of_one_record(target: privacy.Guarantee, n: int, stacklevel: int) -> None:
    """Warn of a delta that would allow publishing one random record."""
    if isinstance(target, privacy.ApproxDP) and (doubts := _doubts(target.delta, n)):
        warnings.warn(
            f"delta={target.delta:g} is not below {doubts[0]}, where publishing one random record "
            f"would {doubts[1]}",
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_large_delta(target: privacy.Guarantee, n: int, stacklevel: int) -> None:
    """Warn of a delta at which the guarantee fails with more than a small probability."""
    if isinstance(target, privacy.ApproxDP) and target.delta > max(n**-1.5, USUAL_DELTA):
        warnings.warn(
            f"delta={target.delta:g} is above n**-1.5 = {n**-1.5:.3g}; delta is the chance that "
            "the promise says nothing, so take it far below 1/n.",
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )


Shares = tuple[tuple[str, float], ...]
"""Each part of a release with its share of the price; the shares add up to 1."""
Spend = Shares | Literal["inference"]
"""Shares, or the usual ones if inference is requested."""

SCALE, RANGES, LENGTHS, COEFFICIENTS = "scale", "ranges", "lengths", "coefficients"
INFERENCE, ROC = "inference", "roc"
"""The names of the stages by which they take shares."""
STAGES: dict[str, Stage[Any]] = {}
"""All stages by the names of their shares, in the order of their releases; `stages` lists them."""
_TAKES = (
    "None (all for the coefficients), 'inference' (the usual shares), or shares that add up to 1, "
    "such as {'coefficients': 0.6, 'inference': 0.4}; {'roc': 0.25} leaves the rest to coefficients"
)
_NEARLY = 1e-9
"""Largest difference between a sum of shares and 1 that is taken for rounding."""
ALL_FOR_COEFFICIENTS: Shares = ((COEFFICIENTS, 1.0),)


def in_order(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what there is of each stage, in the order of their releases.

    Examples
    --------
    >>> from privatelr.mechanisms import in_order
    >>> in_order({"roc": 0.25, "coefficients": 0.75, "inference": None})
    {'coefficients': 0.75, 'roc': 0.25}
    """
    return {name: parts[name] for name in STAGES if parts.get(name) is not None}


def read_spend(spend: Any) -> Spend:
    """Read `spend`; raise `GuaranteeError` if it names something that cannot be requested.

    Examples
    --------
    >>> from privatelr.mechanisms import read_spend
    >>> read_spend(None), read_spend({"inference": 0.25})  # coefficients get the rest
    ((('coefficients', 1.0),), (('coefficients', 0.75), ('inference', 0.25)))
    """
    if spend is None:
        return ALL_FOR_COEFFICIENTS
    if isinstance(spend, str) and spend == "inference":
        return "inference"
    if not isinstance(spend, Mapping):
        meant = or_meant(spend, ["inference"])
        raise GuaranteeError(f"spend={show(spend)}: spend takes {_TAKES}{meant}")
    goods = tuple(STAGES)
    if unknown := [name for name in spend if name not in goods]:
        raise GuaranteeError(
            f"spend: {show(unknown[0])} is not a part of a fit, and takes no share; the parts are "
            f"{listed(goods)}{or_meant(unknown[0], goods)}"
        )
    if COEFFICIENTS not in spend and all(type(one) is float for one in spend.values()):
        rest = 1 - sum(spend.values())
        if 0 < rest < 1:  # what is left is for what everything else is about
            return read_spend({COEFFICIENTS: rest, **spend})
    if COEFFICIENTS not in spend:
        raise GuaranteeError(
            "spend: there is no share for the coefficients, which everything else is about; "
            f"spend takes {_TAKES}."
        )
    shares = dict(spend)
    others = [share for name, share in shares.items() if name != COEFFICIENTS]
    are_floats = all(isinstance(share, float) for share in shares.values())
    nearly = are_floats and abs(sum(shares.values()) - 1) <= _NEARLY
    if others and nearly and all(0 < share < 1 for share in others):
        # decimals such as 0.667 and 0.333 add up nearly: the first share becomes the exact rest
        shares[COEFFICIENTS] = float(1 - sum(map(privacy.exact, others)))
    privacy.split(privacy.NonPrivate(), shares)  # refuses invalid shares
    return tuple(shares.items())


SMALLEST_LAMBDA, LARGEST_LAMBDA = 1e-15, 1e12
"""Range of a penalty of the mean objective that may be asked for; 0 may be asked for, too."""
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 1e4
"""Range of an epsilon or rho that may be asked for; an epsilon of 0 asks for the plain fit."""
_RANGES = {
    "epsilon": (SMALLEST_EPSILON, LARGEST_EPSILON),
    "rho": (SMALLEST_EPSILON**2, LARGEST_EPSILON),
    "delta": (1e-30, 0.5),
}
"""Ranges of the numbers of a guarantee within which the formulas were checked."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was read: the target, and the choices of a user.

    Attributes
    ----------
    target : Guarantee
        The guarantee for everything that is released together.
    placement : str
        ``"objective"`` or ``"output"``.
    analysis : str or None
        The proof to calibrate by; None for the tightest that is proven for the loss.
    lambda_ : float or str
        The penalty of the mean objective, or the name of a rule.
    on_small_lambda : str
        ``"increase"`` or ``"keep"``.
    spend : Shares or "inference"
        The shares of the price.
    kinds : tuple of type
        The laws of noise to choose from; empty for all of them. With it an audit can reach each
        law, although only the shortest proven one is used by default.
    """

    target: privacy.Guarantee
    placement: Placement
    analysis: Analysis | None
    lambda_: float | LambdaRule
    on_small_lambda: SmallLambda
    spend: Spend = ALL_FOR_COEFFICIENTS
    kinds: tuple[type[Any], ...] = ()

    @property
    def shares(self) -> dict[str, float]:
        """The shares that are written out; none where the usual ones are asked for."""
        return {} if self.spend == "inference" else dict(self.spend)

    @property
    def is_published(self) -> bool:
        """Whether a published analysis or the plain fit is asked for, whose defaults stay."""
        return self.analysis == "cms11" or not self.target.is_private

    @property
    def buys_intervals(self) -> bool:
        """Whether the matrices of inference have a share of the price."""
        return self.spend == "inference" or INFERENCE in self.shares

    @property
    def buys_roc(self) -> bool:
        """Whether the counts of scores have a share of the price."""
        return ROC in self.shares

    @property
    def may_scale(self) -> bool:
        """Whether the shares leave something to the scale, if it is worth it.

        A ROC curve takes shares that are written out, so that these ask for no less than the usual
        ones do: the coefficients' share is then that of coefficients and scale together.
        """
        # shares that were written out as {"coefficients": 1} leave nothing
        usual = self.spend == "inference" or self.spend is ALL_FOR_COEFFICIENTS or self.buys_roc
        return usual and not self.is_published


def read_request(
    eps: Any,
    delta: Any,
    spend: Any,
    lambda_: Any,
    op: Any,
    analysis: Any,
    on_small_lambda: Any,
    neighbours: privacy.Neighbours = privacy.REPLACE_ONE,
) -> Request:
    """Turn the arguments of `dplr` and similar functions into values.

    Raises
    ------
    GuaranteeError, ArgumentError
        One sentence that names the argument, what it got and what it takes.
    """
    op = require_flag("op", op, "True (objective perturbation) or False (output)")
    if analysis is not None:
        analysis = require_choice(GuaranteeError, "analysis", analysis, ANALYSES)
    small: Any = require_choice(
        GuaranteeError, "on_small_lambda", on_small_lambda, ("increase", "keep")
    )
    placement: Placement = "objective" if op else "output"
    target, penalty = read_target(eps, delta, neighbours=neighbours), _read_lambda(lambda_)
    return Request(target, placement, analysis, penalty, small, read_spend(spend))


def read_target(
    eps: Any,
    delta: Any,
    usual: float | None = None,
    *,
    name: str = "eps",
    plain: str | None = "the plain fit",
    neighbours: privacy.Neighbours = privacy.REPLACE_ONE,
) -> privacy.Guarantee:
    """Read the guarantee that ``eps`` and ``delta`` ask for; ``eps=0`` asks for none.

    ``eps`` may also be a guarantee itself, as in ``eps=ZCDP(0.1)``.

    Parameters
    ----------
    eps, delta : the arguments of the user
    usual
        The default value of delta, which is ignored if ``eps`` is a guarantee. If it is given,
        `NonPrivate` and infinity ask for no guarantee, too.
    name, plain
        The names of the argument and of a fit without privacy, for errors; None refuses 0.
    neighbours
        Those that the guarantee has to be about.

    Examples
    --------
    >>> from privatelr import ZCDP
    >>> from privatelr.mechanisms import read_target
    >>> for eps, delta in [(1.0, 0), (1.0, 1e-6), (ZCDP(0.1), 0)]:
    ...     print(read_target(eps, delta))
    epsilon = 1 (pure)
    epsilon = 1, delta = 1e-06 (approximate)
    rho = 0.1 (zCDP)
    """
    price = f"0 for {plain}, or a" if plain else "a"
    takes = {"epsilon": price, "rho": "a", "delta": "0 (pure privacy), or a"}

    def number(field: str, value: Any, least: float | None = None) -> float:
        low, high = _RANGES[field]
        said = f"{takes[field]} number from {low:g} to {high:g}"
        label = name if field == "epsilon" else field
        least = low if least is None else least
        return require_number(GuaranteeError, label, value, said, at_least=least, at_most=high)

    if usual is not None and isinstance(eps, privacy.NonPrivate):
        return replace(eps, neighbours=neighbours)
    if isinstance(eps, privacy.Promise):
        beside = 0 if usual is not None and delta == usual else delta
        said = f"0 beside a guarantee as {name}"
        require_number(GuaranteeError, "delta", beside, said, at_least=0, at_most=0)
        if eps.neighbours is not neighbours:
            names = {one: word for word, one in privacy.NEIGHBOURS.items()}
            numbers = ", ".join(repr(getattr(eps, n)) for n in _RANGES if hasattr(eps, n))
            own = f"{type(eps).__name__}({numbers}, neighbours={names[neighbours]!r})"
            if eps.neighbours is privacy.REPLACE_PERSON and name == "eps":
                raise GuaranteeError(
                    "person=None: the guarantee is about persons, and nothing says who a record is "
                    f"of; give the fit person=, the column that tells persons apart ({own} would "
                    "promise less, to each record by itself)."
                )
            raise GuaranteeError(
                f"{name}: takes a guarantee about neighbours that {neighbours.value}, which are "
                f"{names[neighbours]!r}; the one that is given is about {names[eps.neighbours]!r}; "
                f"write {own}."
            )
        for field in _RANGES:
            if hasattr(eps, field):
                number(field, getattr(eps, field))
        return eps
    if usual is not None and _is(eps, math.inf):
        return privacy.NonPrivate(f"none: {name}=inf asks for {plain}", neighbours)
    excess = number("delta", delta, least=0.0)  # beside eps=0 it may be tiny
    if plain and _is(eps, 0):
        return privacy.NonPrivate(f"none: {name}=0 asks for {plain}", neighbours)
    epsilon = number("epsilon", eps)
    if excess == 0:
        return privacy.PureDP(epsilon, neighbours)
    return privacy.ApproxDP(epsilon, number("delta", excess), neighbours)


def _is(value: Any, number: float) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == number


def require_usual(parts: Mapping[str, privacy.Guarantee]) -> None:
    """Refuse parts of a price for whose numbers the formulas here were not checked."""
    for name, part in parts.items():
        limits = _RANGES.items()
        if not all(low <= getattr(part, field, low) <= high for field, (low, high) in limits):
            raise GuaranteeError(
                f"spend: {name} would get {part}, which is less than a release takes; raise eps, "
                "delta or the share."
            )


def _read_lambda(lambda_: Any) -> float | LambdaRule:
    if lambda_ is None:
        return "auto"
    rules = ", ".join(repr(rule) for rule in LAMBDA_RULES)
    takes = f"0, a number from {SMALLEST_LAMBDA:g} to {LARGEST_LAMBDA:g}, or a rule: None, {rules}"
    if isinstance(lambda_, str):
        if lambda_ not in LAMBDA_RULES:
            end = or_meant(lambda_, LAMBDA_RULES)
            raise GuaranteeError(f"lambda_={show(lambda_)}: lambda_ takes {takes}{end}")
        return lambda_
    if _is(lambda_, 0):
        return 0.0
    limits = {"at_least": SMALLEST_LAMBDA, "at_most": LARGEST_LAMBDA}
    return require_number(GuaranteeError, "lambda_", lambda_, takes, **limits)


def read_account(ledger: Any) -> Account | None:
    """Return the account to charge: the given ledger, and every other one that is to be charged."""
    if ledger is not None and not isinstance(ledger, Account | str | os.PathLike):
        takes = "ledger takes a Ledger, a part of one, or the path of one on disk"
        raise ArgumentError(f"ledger={show(ledger)}: {takes}.")
    return account_with(ledger)


def require_no_account(account: Account | None) -> None:
    """Refuse to charge an account for persons whose values have no name of a column.

    Raises
    ------
    GuaranteeError
    """
    if account is not None:
        raise GuaranteeError(
            "person: a ledger adds up prices about persons of one column, by its name, and these "
            "values have no name; hand over a Series that has, such as frame['patient']."
        )


def read_seed(seed: Any, replayed: str, what: str, stacklevel: int = 4) -> int | None:
    """Read a seed, and warn the user of the calling function that it voids the guarantee."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise ArgumentError(f"seed={show(seed)}: seed takes None or a whole number from 0.")
    warnings.warn(
        f"seed={seed}: the {replayed} can be replayed, so this {what} has no privacy; leave "
        "seed=None for a release.",
        PrivacyWarning,
        stacklevel=stacklevel,
    )
    return int(seed)
