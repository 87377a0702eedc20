"""Law 30: a call gives the same fit by every door: frame, partitions of Dask, stream, polars."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FixedRandomness
from streams_for_tests import KEPT, STREAMED, arrow, in_batches

import privatelr.fitting
from privatelr import dplr, dpmultinom, dpsvm, stream
from privatelr.design import offsets_and_weights

dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
pl = pytest.importorskip("polars", reason="needs polars")

N = 300
SCHEMA = {
    "bounds": {"x": (-1, 1), "u": (0, 3), "z": (0.5, 4), "w": (0, 2)},
    "levels": {"y": ["no", "yes"], "g": list("abc"), "f": [f"f{i}" for i in range(90)]},
}
FEATURES = {
    "output perturbation": (dplr, "y ~ x + g", {"op": False, "do_scale": False}),
    "no privacy": (dplr, "y ~ x + g", {"eps": 0}),
    "random projection": (dplr, "y ~ x + u + g", {"rp_dim": 2}),
    "support vector machine": (dpsvm, "y ~ x * g", {}),
    "Huber loss": (dpsvm, "y ~ x + g", {"loss": "huber", "h": 0.1, "eps": 0}),
    "wide factor": (dplr, "y ~ f + x", {}),
    "inference": (dplr, "y ~ x + g", {"spend": "inference"}),
    "inference under a delta": (dplr, "y ~ x + g", {"spend": "inference", "delta": 1e-6}),
    "offset": (dplr, "y ~ x + offset(log(z))", {}),
    "weights": (dplr, "y ~ x + u", {"weights": "w", "do_scale": "private"}),
    "subset": (dplr, "y ~ x + u", {"subset": "z > 1"}),
    "prior": (dplr, "y ~ x + u", {"prior": {"x": 1.0, "(Intercept)": -1.0}, "eps": 20.0}),
    "prior with deviations": (dplr, "y ~ x + u", {"prior": {"x": (1.0, 0.2)}, "eps": 20.0}),
    "natural spline": (dplr, "y ~ ns(u, knots = c(1, 2)) + x", {}),
    "splines and intervals": (dplr, "y ~ bs(u, knots = c(1, 2)) + cut(z, c(0.5, 2, 4))", {}),
    "strata": (dplr, "y ~ x", {"by": "g"}),
    "several classes": (dpmultinom, "g ~ x + u", {}),
}
DOORS = {
    "Dask": lambda frame: dd.from_pandas(frame, npartitions=3),
    "stream": lambda frame: stream(in_batches(arrow(frame), 40, 0, 70), memory=KEPT),
    "stream of many passes": lambda frame: stream(in_batches(arrow(frame), 7), memory=STREAMED),
    "polars": pl.from_pandas,
}


@pytest.fixture(autouse=True)
def _one_noise(monkeypatch):
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)


@lru_cache
def table():
    rng = np.random.default_rng(30)
    frame = pd.DataFrame({name: rng.uniform(*ends, N) for name, ends in SCHEMA["bounds"].items()})
    frame["g"], frame["f"] = (rng.choice(SCHEMA["levels"][name], N) for name in "gf")
    frame["y"] = np.where(frame["x"] + rng.logistic(size=N) > 0, "yes", "no")
    frame.loc[[3, 200], "x"] = np.nan, 9.0
    return frame.astype({name: "str" for name in "gfy"})


def fitted(feature, door=lambda frame: frame):
    model, formula, options = FEATURES[feature]
    used = {name for name in (*SCHEMA["levels"], *SCHEMA["bounds"]) if name in table()}
    schema = {kind: {k: v for k, v in given.items() if k in used} for kind, given in SCHEMA.items()}
    fit = model(formula, door(table()), **{"eps": 2.0, **schema, **options})
    return fit.fits if feature == "strata" else {"": fit}


def check_same(feature, door):
    for found, expected in zip(
        fitted(feature, DOORS[door]).values(), fitted(feature).values(), strict=True
    ):
        assert found.guarantee == expected.guarantee
        assert found.calibration == expected.calibration
        np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-8)
        if feature.startswith("inference"):
            np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("feature", FEATURES)
def test_law(feature, door):
    check_same(feature, door)


def test_planted_bug_is_caught(monkeypatch):
    """Partitions that forget the offset."""
    honest = offsets_and_weights.read_offset

    def forgetful(offsets, values, n):
        found, usable = honest(offsets, values, n)
        return (found if n == N else 0 * found), usable

    monkeypatch.setattr(offsets_and_weights, "read_offset", forgetful)
    check_same("offset", "polars")
    with pytest.raises(AssertionError):
        check_same("offset", "Dask")
