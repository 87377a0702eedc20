"""Law 8: a prediction depends on its row alone: no batch, no order, no scaling by new data."""

import numpy as np
import pytest
from frames_for_laws import SVMS, clinic, fit_clinic
from hypothesis import given
from hypothesis import strategies as st

import privatelr.results.predict
from privatelr import PrivacyWarning, dplr, load_dataset, load_schema
from privatelr.inference import RowErrors

TYPES = ["probabilities", "classes", "link"]


def check_row_wise(fit, frame, type="link"):
    whole = fit.predict(frame, type=type).to_numpy()
    for i in range(len(frame)):
        np.testing.assert_array_equal(whole[i], fit.predict(frame[i : i + 1], type=type))
    order = np.random.default_rng(0).permutation(len(frame))
    np.testing.assert_array_equal(whole[order], fit.predict(frame.iloc[order], type=type))


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(
    "options", [{}, {"rp_dim": 2}, {"row_norm": 0.7}, {"op": False}, {"bounds": None}]
)
def test_law(type, options):
    fit = fit_clinic(clinic(), **options)
    check_row_wise(fit, clinic(n=23, seed=5), type)


@pytest.mark.parametrize("type", ["classes", "margins"])
@pytest.mark.parametrize("model", [SVMS["dpsvm"], SVMS["softplus"]], ids=["dpsvm", "softplus"])
@pytest.mark.parametrize("options", [{}, {"rp_dim": 2}, {"bounds": None, "op": False}], ids=str)
def test_law_of_hinges(type, model, options):
    fit = fit_clinic(clinic(), model=model, **options)
    check_row_wise(fit, clinic(n=23, seed=5), type)


def check_intervals_row_wise(fit, frame, mode=None):
    asked = {"mode": mode, "target": "penalised" if mode == "conservative" else None}
    whole = fit.predict(frame, interval=0.9, **asked)
    for i in range(len(frame)):
        alone = fit.predict(frame[i : i + 1], interval=0.9, **asked)
        np.testing.assert_array_equal(whole.iloc[i : i + 1], alone)
    order = np.random.default_rng(0).permutation(len(frame))
    np.testing.assert_array_equal(
        whole.iloc[order], fit.predict(frame.iloc[order], interval=0.9, **asked)
    )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["posterior", "conservative", "plug-in"])
@pytest.mark.parametrize(
    "options",
    [{}, {"rp_dim": 2, "bounds": None}, {"op": False}, {"model": SVMS["dpsvm"], "delta": 1e-6}],
    ids=["dplr", "projected", "output", "dpsvm"],
)
def test_law_of_intervals(mode, options):
    fit = fit_clinic(clinic(n=400), spend="inference", **options)
    frame = clinic(n=23, seed=5)
    frame.loc[3, "age"], frame.loc[4, "smoker"] = np.nan, "sometimes"
    check_intervals_row_wise(fit, frame, mode)


@pytest.mark.slow
def test_planted_bug_in_intervals_is_caught(monkeypatch):
    """Standard errors by one product of matrices, whose order of summation the batch decides."""

    def by_blas(errors, rows):
        return np.linalg.norm(rows @ errors.roots[0], axis=1) + 1e-12 * len(rows)

    monkeypatch.setattr(RowErrors, "sd", by_blas)
    fit = fit_clinic(clinic(n=400), spend="inference")
    with pytest.raises(AssertionError):
        check_intervals_row_wise(fit, clinic(n=5))


def test_law_on_a_wide_design():
    table = load_dataset("breast_cancer")
    fit = dplr("diagnosis ~ .^2", table, **load_schema("breast_cancer"))
    check_row_wise(fit, table[:40])


def test_scaling_by_the_training_data_is_reused():
    """R's predict scales new data by its own moments; ours by those of the training data."""
    with pytest.warns(PrivacyWarning, match="do_scale"):
        fit = fit_clinic(clinic(), do_scale=True)
    check_row_wise(fit, clinic(n=23, seed=5))


@pytest.mark.slow
@given(st.lists(st.integers(0, 149), min_size=1, max_size=12))
def test_any_batch_of_iris(picked):
    iris = load_dataset("iris")
    fit = IRIS_FIT
    whole = fit.predict(iris).to_numpy()
    np.testing.assert_array_equal(whole[picked], fit.predict(iris.iloc[picked]))


IRIS_FIT = dplr("Species != 'setosa' ~ .", load_dataset("iris"))


def test_planted_bug_is_caught(monkeypatch):
    """A predictor that centres each batch."""

    def centred(x, coef):
        return (x - x.mean(axis=0)) @ coef

    fit = fit_clinic(clinic())
    monkeypatch.setattr(privatelr.results.predict, "linear_predictor", centred)
    with pytest.raises(AssertionError):
        check_row_wise(fit, clinic(n=5))
