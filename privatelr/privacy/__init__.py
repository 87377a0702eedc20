"""What is promised: guarantees, noise, randomness; no data and no formula."""

from privatelr.privacy.conversions import (
    compose,
    from_json,
    implies,
    pure_within,
    to_approximate,
    to_json,
    to_zcdp,
)
from privatelr.privacy.events import (
    FIRST_ORDER,
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    SimplexDrawEvent,
    TiltEvent,
    at_least,
    at_most,
    event_from_json,
    event_to_json,
    exact,
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
