"""Computations on rows: losses, folds, minimisers; this layer knows no privacy and no formula."""

from privatelr.numerics.losses import (
    EVALUATION_ERROR,
    HINGES,
    LOSSES,
    MARGIN_ERROR,
    Huber,
    Logistic,
    Loss,
    SoftplusHinge,
    describe,
    find_hinge,
    find_loss,
    label,
)
from privatelr.numerics.objective import (
    Objective,
    filled_part,
    gradient_of,
    hessian,
    mean_change,
    value_and_gradient,
)
from privatelr.numerics.parallel import in_order, summed, threads
from privatelr.numerics.roc import (
    RocCurve,
    ThresholdRule,
    area_under,
    best_threshold,
    c_index,
    roc_curve,
    twice_concordant,
    weighted_concordant,
)
