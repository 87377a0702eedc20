"""The C-index of a fit counts a tie as half, also where weights and rounding tear it apart."""

import numpy as np
import pandas as pd
import pytest
from dask_for_tests import KEPT, STREAMED, in_parts
from scipy import sparse
from streams_for_tests import arrow, in_batches

import privatelr.results.diagnostics
from privatelr import dplpsvm, dplr, dpsvm, stream
from privatelr.numerics import roc_curve

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
metrics = pytest.importorskip("sklearn.metrics", reason="needs the extra [sklearn]")

N, BOUNDS = 1500, {"x": (-1, 1), "u": (0, 3), "z": (-1, 1), "w": (0, 7)}
WAYS = {
    "frame": lambda frame: frame,
    "dask": lambda frame: in_parts(frame, 400, 700),
    "stream": lambda frame: stream(in_batches(arrow(frame), 333, 500)),
}


def made(seed=3):
    """Few different covariates and offsets, and weights of any size."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.choice([-0.7, 0.1, 0.3], N),
            "u": rng.choice([0.1, 1.1, 2.3], N),
            "z": rng.choice([0.0, 0.3], N),
            "w": rng.uniform(0.1, 7, N),
            "g": pd.Categorical.from_codes(rng.integers(0, 60, N), [f"g{i}" for i in range(60)]),
        }
    )
    frame["y"] = rng.uniform(size=N) < 1 / (1 + np.exp(0.4 - frame["x"]))
    return frame


FRAME = made()


def area(fit, frame):
    """By a reference, whose scores are those of predictions: equal ones for equal records."""
    return metrics.roc_auc_score(frame["y"], fit.predict(frame, "link"))


@pytest.mark.parametrize("memory", [KEPT, STREAMED])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("formula", ["y ~ x + u", "y ~ x + u + offset(z)", "y ~ 0 + offset(z) + x"])
@pytest.mark.parametrize("declared", [{"row_norm": 0.5}, {}], ids=["long", "short"])
def test_equal_records_of_any_weight_tie(memory, way, formula, declared):
    with dask.config.set({"scheduler": "synchronous", "privatelr.memory": memory}):
        fit = dplr(formula, WAYS[way](FRAME), eps=2.0, bounds=BOUNDS, weights="w", **declared)
        assert fit.diagnostics.c_index == pytest.approx(area(fit, FRAME), abs=1e-12)


def check_ties(fit, *given, frame=FRAME, digits=None):
    """Equal records have equal predictions; others may if coefficients are equal: round these."""
    scale = "margins" if fit.loss.probability is None else "link"
    link = fit.predict(*given or (frame,), scale)
    link = link if digits is None else np.round(link, digits)
    expected = metrics.roc_auc_score(frame["y"], link)
    assert fit.diagnostics.c_index == pytest.approx(expected, abs=1e-12)
    assert len(fit.diagnostics.roc) == len(np.unique(link)) + 1


@pytest.mark.parametrize("weights", [None, "w"])
def test_margins_and_probabilities_tie(weights):
    for kind in (dplr, dpsvm):
        check_ties(kind("y ~ x * u * z + g", FRAME, eps=2.0, bounds=BOUNDS, weights=weights))
    check_ties(dplpsvm("y ~ x + u + g", FRAME, eps=2.0, bounds=BOUNDS), digits=9)


@pytest.mark.parametrize("wide", [{"x": (0, 1e9)}, {"x": (0, 1), "z": (-1e13, 1e13)}])
def test_wide_bounds_make_no_ties(wide):
    x = np.random.default_rng(2).uniform(0, 1, N)
    frame = pd.DataFrame({"x": x, "z": 0.0, "y": FRAME["y"]})
    fit = dplr(f"y ~ x{' + offset(z)' * ('z' in wide)}", frame, eps=0, bounds=wide)
    expected = metrics.roc_auc_score(frame["y"], x if fit.coef["x"] > 0 else -x)
    assert fit.diagnostics.c_index == pytest.approx(expected, abs=1e-5)


def test_long_rows_of_a_sparse_matrix_tie():
    """They count less, so that they are scaled, too."""
    matrix = sparse.csr_array(FRAME[["x", "u", "z"]].to_numpy())
    fit = dplr(FRAME["y"], matrix, eps=2.0, row_norm=0.5)
    check_ties(fit, matrix)


def test_records_of_persons_tie():
    frame = FRAME.assign(who=np.random.default_rng(5).integers(0, 700, N))
    given = {"person": "who", "records_per_person": 3, "bounds": BOUNDS}
    check_ties(dplr("y ~ x + u", frame, eps=2.0, **given), frame=frame)


def test_scores_that_rounding_tears_apart_are_caught(monkeypatch):
    """The curve as it was, in which records of different weights were in some order."""

    def torn(link, positive, *, near, shown):
        return roc_curve(link, positive, shown=shown)

    monkeypatch.setattr(privatelr.results.diagnostics.numerics, "roc_curve", torn)
    with pytest.raises(AssertionError):
        check_ties(dplr("y ~ x + u", FRAME, eps=2.0, bounds=BOUNDS, weights="w"))
