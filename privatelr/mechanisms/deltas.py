"""How small a delta has to be next to the number of records, both of them public.

At ``1/n`` the promise says nothing: who publishes one record that was picked at random satisfies
(0, 1/n)-privacy for every record.
"""

from __future__ import annotations

import math
import warnings

from privatelr.errors import GuaranteeError, PrivacyWarning
from privatelr.privacy.guarantees import ApproxDP, Guarantee

USUAL_DELTA = 1e-6
"""Taken where none is given, and never warned of below ``1/n``."""


def _is_below(delta: float, n: int) -> bool:
    return delta < 1 / n and delta * n < 1  # for the double nearest to 1/n may be on either side


def _far_below(n: int) -> str:
    """A power of ten that no door warns of."""
    return f"{10.0 ** math.floor(math.log10(0.01 / n)):g}"


def require_below_one_record(target: Guarantee, n: int) -> None:
    """Refuse a delta under which one random record might be published."""
    if isinstance(target, ApproxDP) and not _is_below(target.delta, n):
        raise GuaranteeError(
            f"delta={target.delta:g}: delta takes a number below 1/n = {1 / n:.3g}, because at 1/n "
            f"publishing one random record would count as private; take {_far_below(n)}, or less."
        )


def warn_of_one_record(target: Guarantee, n: int, stacklevel: int) -> None:
    """Say so where one random record might be published."""
    if isinstance(target, ApproxDP) and not _is_below(target.delta, n):
        warnings.warn(
            f"delta={target.delta:g} is not below 1/n = {1 / n:.3g}, where publishing one random "
            f"record would count as private; take {_far_below(n)}, or less.",
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_large_delta(target: Guarantee, n: int, stacklevel: int) -> None:
    """Say so where the promise has more than a small chance to say nothing."""
    if isinstance(target, ApproxDP) and target.delta > max(n**-1.5, USUAL_DELTA):
        warnings.warn(
            f"delta={target.delta:g} is above n**-1.5 = {n**-1.5:.3g}; delta is the chance that "
            "the promise says nothing, so take it far below 1/n.",
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )
