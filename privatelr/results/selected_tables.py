"""A model of chosen columns as frames, every entry public or paid for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from privatelr.results.fit_record import SelectedRecord
from privatelr.results.fit_tables import promise_of


def selected(fit: SelectedRecord) -> pd.DataFrame:
    """See `SelectedFit.selected`."""
    counts, names = fit.release.counts, fit.spec.columns.names
    d = len(names)
    order = np.argsort(-counts, kind="stable")
    chosen = [int(option) for option in order if counts[option] > 0]
    return pd.DataFrame(
        {
            "term": [names[option % d] for option in chosen],
            "sign": ["+" if option < d else "-" for option in chosen],
            "times": [int(counts[option]) for option in chosen],
        }
    )


def tidy(fit: SelectedRecord) -> pd.DataFrame:
    """One row per coefficient."""
    counts, names = fit.release.counts, fit.spec.columns.names
    d = len(names)
    return pd.DataFrame(
        {
            "term": list(names),
            "estimate": fit.coef.to_numpy(),
            "times_plus": counts[:d],
            "times_minus": counts[d:],
        }
    )


def glance(fit: SelectedRecord) -> pd.DataFrame:
    """One row about the fit."""
    problem = fit.calibration.problem
    row = {
        **promise_of(fit),
        "mechanism": fit.calibration.mechanism,
        "choices": int(fit.release.counts.sum()),
        "nonzero": int(np.count_nonzero(fit.release.coef)),
        "x_bound": problem.x_bound,
        "loss": fit.loss.name,
        **fit.loss.parameters,
    }
    return pd.DataFrame([row])
