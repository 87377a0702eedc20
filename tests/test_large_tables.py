"""Sparse matrices and wide factors at the front door."""

import json
import pickle
from dataclasses import replace
from importlib.resources import files

import jsonschema
import numpy as np
import pandas as pd
import pytest
from frames_for_laws import MODELS, fixed_noise
from scipy import sparse

import privatelr.call_data
from privatelr import (
    ArgumentError,
    FormulaError,
    SchemaError,
    dplr,
    load,
)

EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((files("privatelr.results") / "release.schema.json").read_text("utf-8"))
)


def words(n=400, p=120, seed=0):
    rng = np.random.default_rng(seed)
    x = sparse.random_array((n, p), density=0.05, rng=rng, format="csr")
    y = x[:, :10].sum(axis=1) > x[:, 10:20].sum(axis=1)
    return pd.Series(y, name="bought"), x


def wards(n=600, levels=90, seed=1):
    rng = np.random.default_rng(seed)
    names = [f"w{index}" for index in range(levels)]
    frame = pd.DataFrame({"ward": rng.choice(names, n), "age": rng.uniform(18, 90, n)})
    frame["y"] = (rng.random(n) < 0.3).astype(float)
    frame.loc[4, "ward"], frame.loc[6, "age"], frame.loc[8, "y"] = "nowhere", np.nan, np.nan
    return frame, {"levels": {"ward": names, "y": [0, 1]}, "bounds": {"age": (18, 90)}}


@EVERY_MODEL
@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"op": False}, {"eps": 0}], ids=str)
def test_a_sparse_matrix_is_fitted_saved_and_read_back(model, options, tmp_path):
    y, x = words()
    fit = model(y, x, **{"eps": 2.0, "lambda_": 1e-2, **options})
    assert list(fit.coef.index[:2]) == ["(Intercept)", "X1"]
    fit.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    loaded = load(tmp_path / "model.json")
    for kind in ("classes", "link" if model is dplr else "margins"):
        found = fit.predict(x, kind)
        pd.testing.assert_series_equal(loaded.predict(x.tocsc(), kind), found)
        np.testing.assert_array_equal(fit.predict(x.toarray(), kind), found)
    assert replace(loaded, origin=None).card() == fit.card()
    pd.testing.assert_frame_equal(loaded.tidy(), fit.tidy())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fit)).coef, fit.coef)


@EVERY_MODEL
def test_a_sparse_matrix_and_its_dense_frame_give_the_same(model, monkeypatch):
    y, x = words()
    frame = pd.DataFrame(x.toarray(), columns=[f"X{j + 1}" for j in range(x.shape[1])])
    with fixed_noise(monkeypatch):
        by_matrix = model(y, x, eps=2.0, lambda_=1e-2)
        by_frame = model("bought ~ .", frame.assign(bought=y), eps=2.0, lambda_=1e-2)
    np.testing.assert_allclose(by_matrix.coef, by_frame.coef, rtol=0, atol=1e-8)


@EVERY_MODEL
@pytest.mark.parametrize("do_scale", [False, None])
@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}, {"spend": "inference"}], ids=str)
def test_wide_factors_are_held_without_zeros_and_give_the_same(
    model, options, do_scale, monkeypatch
):
    frame, schema = wards()
    seen, options = [], {"eps": 4.0, "lambda_": 1e-2, "do_scale": do_scale, **schema, **options}
    honest = privatelr.call_data.read_sparse

    def counted(spec, data):
        seen.append(spec.d)
        return honest(spec, data)

    monkeypatch.setattr(privatelr.call_data, "read_sparse", counted)
    with fixed_noise(monkeypatch):
        thin = model("y ~ ward + age", frame, **options)
        monkeypatch.setattr(privatelr.call_data, "worth_sparse", lambda spec: False)
        full = model("y ~ ward + age", frame, **options)
    # rows whose scale is released first are read for it, too
    assert seen == ([91] if thin.release.scale is None else [91, 91])
    assert (thin.release.scale is None) == (do_scale is False)
    np.testing.assert_allclose(thin.release.coef, full.release.coef, rtol=0, atol=1e-8)
    assert thin.calibration == full.calibration


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda y, x: dplr("y ~ .", x), FormulaError, "no names for a formula"),
        (lambda y, x: dplr(y, x, do_scale=True), ArgumentError, "do_scale, rp_dim"),
        (lambda y, x: dplr(y, x, bounds={"X1": (0, 1)}), SchemaError, "row_norm= alone"),
        (lambda y, x: dplr(y[:5], x), SchemaError, "y has 5 values and X has 400 rows"),
        (lambda y, x: dplr(y, x).predict(x[:, :3]), SchemaError, "the fit was of 120 columns"),
    ],
)
def test_a_slip_is_one_sentence(ask, error, message):
    with pytest.raises(error, match=message):
        ask(*words())


def test_a_missing_response_is_no_negative_one():
    frame = pd.DataFrame({"y": [1.0] * 50 + [np.nan] * 50, "x": np.zeros(100)})
    plain = dplr("y ~ 1", frame, eps=0, lambda_=1e-3, levels={"y": [0, 1]})
    assert plain.coef.iloc[0] > 2
