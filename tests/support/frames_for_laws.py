"""Small frames and a way to fix the noise, shared by the laws."""

import pickle
from contextlib import contextmanager
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd

import privatelr.fitting
import privatelr.method
from privatelr import dplr, dpsvm
from privatelr.numerics import HINGES
from privatelr.privacy.noise import SeededRandomness

FORMULA = "y ~ age + dose + smoker"
SCHEMA = {
    "bounds": {"age": (18, 90), "dose": (0, 5)},
    "levels": {"smoker": ["no", "yes"], "y": [0, 1]},
}
MODELS = {
    "dplr": dplr,
    "dpsvm": partial(dpsvm, loss="huber"),
    "narrow": partial(dpsvm, loss="huber", h=0.1),
    **{name: partial(dpsvm, loss=name) for name in HINGES if name != "huber"},
}
"""Every function and every loss: a law about fits runs over them."""
ONE_STAGE = {name: partial(model, do_scale=False) for name, model in MODELS.items()}
"""The same without the stage that releases a scale: for laws about the stage of coefficients."""
SVMS = {name: model for name, model in MODELS.items() if name != "dplr"}


def clinic(n=40, seed=1):
    """A frame with two bounded numbers, a factor and a 0/1 response."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(18, 90, n),
            "dose": rng.uniform(0, 5, n),
            "smoker": rng.choice(["no", "yes"], n),
            "y": rng.integers(0, 2, n).astype(float),
        }
    )


def clinic_by_age(n):
    """The frame of `clinic` with a response that grows with age."""
    found = clinic(n)
    chance = 1 / (1 + np.exp(-(found.age - 54) / 8))
    return found.assign(y=(np.random.default_rng(3).random(n) < chance).astype(float))


class FixedRandomness:
    """The same numbers at every draw, posing as secret: a draw injected at the front door."""

    is_secret = True

    def draw(self, recipe):
        return SeededRandomness(7).draw(recipe)

    def uniforms(self, count):
        return np.random.default_rng(7).uniform(size=count)


@contextmanager
def fixed_noise(monkeypatch):
    """Within the block every fit draws the same noise."""
    with monkeypatch.context() as patch:
        patch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)
        yield


def own_stages(monkeypatch):
    """From here on stages are of the promise's own kind, and not pure where that is less noise."""
    monkeypatch.setattr(privatelr.method, "promises_for", lambda asked: (asked.target,))


def fit_clinic(frame, *, model=dplr, **options):
    return model(FORMULA, frame, **{**SCHEMA, **options})


def require_fresh(releases):
    """Each of three or more releases ``(d,)`` has noise of its own, in every coordinate.

    Released numbers lie on a grid, and two draws of a few thousand steps of it coincide now and
    then: in one coordinate or two of a pair, but not in three releases, and not in three
    coordinates.
    """
    table = np.asarray(releases)
    assert min(table.shape) > 2
    assert (np.ptp(table, axis=0) > 0).all()
    for one, other in combinations(table, 2):
        assert np.count_nonzero(one == other) < 3


def scores(fit, frame):
    """One number for each row: the linear predictor, whatever it is called."""
    linear = fit.calibration.problem.loss.probability is None
    return fit.predict(frame, type="margins" if linear else "link")


def replaced(frame, row, **values):
    """The neighbour with other values in one row; where it can, a column keeps its type."""
    neighbour = frame.copy()
    for name, value in values.items():
        column = list(neighbour[name])
        column[row] = value
        kept = isinstance(value, int | float if frame[name].dtype.kind in "iuf" else str)
        dtype = frame[name].dtype if kept else object
        neighbour[name] = pd.Series(column, index=frame.index, dtype=dtype)
    return neighbour


def stored(fit):
    """Everything a fit writes to a file, as bytes."""
    return pickle.dumps(fit)
