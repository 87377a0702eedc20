"""Guarantees, noise and randomness; this layer does not know data or formulas."""

from privatelr.privacy.conversions import (
    compose,
    implies,
    join,
    prices,
    pure_within,
    split,
    to_approximate,
    to_zcdp,
)
from privatelr.privacy.events import (
    FIRST_ORDER,
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    SimplexDrawEvent,
    TiltEvent,
    as_pure,
    event_from_json,
    event_to_json,
    grouped,
    pure_cap,
    renyi,
    renyi_curve,
)
from privatelr.privacy.guarantees import (
    NEIGHBOURS,
    REPLACE_ONE,
    ZCDP,
    ZERO_OUT,
    ApproxDP,
    Guarantee,
    Neighbours,
    NonPrivate,
    Promise,
    PureDP,
    at_least,
    at_most,
    exact,
    from_json,
    to_json,
    unless_seeded,
    void,
)
from privatelr.privacy.renyi_divergence import (
    ORDERS,
    epsilon_of_choices,
    epsilon_of_curve,
    range_within,
    renyi_of_draw,
    renyi_of_range,
)
