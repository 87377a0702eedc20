"""Inference of a plain fit of a few records, whose matrices have a rank below their size."""

import warnings

import numpy as np
import pandas as pd
import pytest

from privatelr import dplr, dpsvm
from privatelr.inference import conservative
from privatelr.inference.noisy_moments import bias_in_errors, evidence_of

COLUMNS = {"x": [0.5, -0.78, 1.0], "u": [1.0, 0.3, 1.0], "y": [True, False, True], "p": [0, 0, 1]}
PERSONS = {"person": "p", "records_per_person": 2}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("persons", [{}, PERSONS], ids=["records", "persons"])
@pytest.mark.parametrize("lambda_", [1e-12, 1e-9, 1e-3, 1.0])
@pytest.mark.parametrize("kind", [dplr, dpsvm])
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x", "y ~ x * u"])
def test_a_page_can_be_printed(n, persons, lambda_, kind, formula):
    frame = pd.DataFrame(COLUMNS).head(n)
    given = {"bounds": {"x": (-1, 1), "u": (0, 1)}, "lambda_": lambda_, "op": False, **persons}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = kind(formula, frame, eps=0, spend="inference", **given)
        assert len(fit.summary().as_text()) > 0
    assert not np.isnan(bias_in_errors(evidence_of(fit.release)))


def test_the_bias_in_errors_is_that_of_a_solved_system():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, 300), "u": rng.uniform(0, 1, 300)})
    frame["y"] = (rng.uniform(size=300) < 1 / (1 + np.exp(-frame["x"]))).astype(int)
    fit = dplr(
        "y ~ x * u",
        frame,
        eps=0,
        spend="inference",
        bounds={"x": (-1, 1), "u": (0, 1), "y": (0, 1)},
    )
    known = evidence_of(fit.release)
    square = known.drawn @ np.linalg.solve(known.scores, known.drawn)
    expected = known.floor * np.sqrt(known.problem.n * square)
    assert bias_in_errors(known) == pytest.approx(expected, rel=1e-6)


def test_scores_of_zero_have_a_bound():
    """As where no record counts: squares of multipliers this small are beyond doubles."""
    dual = conservative.LagrangeDual(
        np.zeros((1, 1)),
        np.array([-1e-12, 230.0, 16.0, 14.0])[:, None, None],
        np.array([0.5, 0.9, 0.5, -0.5])[:, None],
        np.array([0.0, -1.0, 0.0, 0.0]),
    )
    start = np.array([2e-278, 9e-296, 1.3e-294, 1.3e-294])
    with np.errstate(all="raise", under="ignore"):
        found = conservative._descended(dual, start, 0.3)
    assert 0 < dual.bound(found)[0] < 1e-250
