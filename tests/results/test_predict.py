"""Predictions are made piece by piece, and nobody can tell."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import clinic, fit_clinic

import privatelr.numerics.rows.dense_rows as rows_module
import privatelr.results.predict as predict_module
from privatelr import ZCDP, ArgumentError, FormulaError, dplpsvm, dplr, dpsvm

SCHEMA = {
    "bounds": {"dose": (0, 10)},
    "levels": {"arm": ["a", "b", "c"], "ill": [0, 1]},
}


def people(n):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "dose": rng.uniform(-1, 11, n),
            "arm": rng.choice(["a", "b", "c", "unheard of"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "ill": rng.integers(0, 2, n),
        },
        index=np.arange(n) * 3,
    )
    frame.loc[frame.index[::7], "dose"] = np.nan
    return frame


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize("type_", [None, "classes"])
def test_pieces_are_predicted_as_rows_by_themselves(monkeypatch, model, type_):
    frame = people(300)
    fit = model("ill ~ log(dose + 2) * arm", frame, eps=1, **SCHEMA)
    whole = fit.predict(frame, type=type_)
    monkeypatch.setattr(rows_module, "_PIECE", 64)
    pd.testing.assert_series_equal(fit.predict(frame, type=type_), whole)
    alone = [fit.predict(frame.iloc[[row]], type=type_).iloc[0] for row in range(20)]
    np.testing.assert_array_equal(np.array(alone, dtype=float), whole.to_numpy(dtype=float)[:20])
    assert 0 < whole.isna().mean() < 1
    assert list(whole.index) == list(frame.index)


def test_a_column_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(rows_module, "_PIECE", 64)
    fit = dplr("ill ~ dose", people(300), eps=1, **SCHEMA)
    with pytest.raises(FormulaError, match=r"the column 'dose' is missing"):
        fit.predict(people(300).drop(columns="dose"))


def test_a_design_of_many_levels_is_never_held_as_a_whole():
    """As a table of numbers it would take 64 megabytes, and without zeros it takes little."""
    levels = [f"level {number}" for number in range(1000)]
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"y": rng.integers(0, 2, 8000), "place": rng.choice(levels, 8000)})
    fit = dplr("y ~ place", frame, eps=1, levels={"y": [0, 1], "place": levels})
    fit.predict(frame.head(10))  # what is imported or cached the first time
    tracemalloc.start()
    try:
        found = fit.predict(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.notna().all()
    assert peak < 4e6


@pytest.mark.parametrize(
    ("model", "type_", "options"),
    [
        (dplr, "link", {"do_scale": False}),
        (dpsvm, "margins", {"do_scale": False}),
        (dplpsvm, "margins", {}),
        (dplr, "link", {"eps": ZCDP(0.3)}),
        (dpsvm, "margins", {"eps": ZCDP(0.3)}),
        # rows with a length of some columns beside that of all
        (dplr, "link", {}),
        (dpsvm, "margins", {}),
        (dplr, "link", {"bounds": {}, "row_norm": 0.7}),
    ],
)
def test_predictions_without_zeros_are_those_with_them(monkeypatch, model, type_, options):
    levels = [f"p{number}" for number in range(80)]
    frame = people(400)
    frame["place"] = np.random.default_rng(2).choice([*levels, "elsewhere"], 400)
    levels = {**SCHEMA["levels"], "place": levels}
    options = {"eps": 5, "bounds": SCHEMA["bounds"], "levels": levels, **options}
    fit = model("ill ~ place * dose + arm", frame, **options)
    found = fit.predict(frame, type=type_)
    alone = [fit.predict(frame.iloc[[row]], type=type_).iloc[0] for row in range(30)]
    np.testing.assert_array_equal(alone, found.to_numpy()[:30])
    asked = []
    monkeypatch.setattr(predict_module.design, "worth_sparse", lambda spec: asked.append(spec))
    pd.testing.assert_series_equal(fit.predict(frame, type=type_), found, rtol=1e-12)
    assert asked
    assert 0 < found.isna().mean() < 1


@pytest.mark.parametrize(
    ("model", "alias", "ours"),
    [
        (dplr, "response", "probabilities"),
        (dplr, "prob", "probabilities"),
        (dplr, "class", "classes"),
        (dpsvm, "response", "classes"),
        (dpsvm, "class", "classes"),
        (dplpsvm, "response", "classes"),
        (dplpsvm, "class", "classes"),
    ],
)
def test_names_of_r_mean_the_same(model, alias, ours):
    fit = fit_clinic(clinic(), model=model)
    found = fit.predict(clinic(), type=alias)
    pd.testing.assert_series_equal(found, fit.predict(clinic(), type=ours))


@pytest.mark.parametrize(
    ("model", "asked", "words"),
    [
        (dplr, "margins", "type takes 'probabilities', 'classes', 'link'; R's names of them are"),
        (dplr, "odds", "R's names of them are 'response', 'prob', 'class'."),
        (dplr, ["class"], "type=['class']: type takes 'probabilities'"),
        (dpsvm, "odds", "type takes 'classes', 'margins'; R's names of them are 'response', 'cl"),
        (dpsvm, "prob", "type='prob': type takes 'classes', 'margins'; a support vector machine"),
        (dpsvm, "prob", "has no probabilities, and dplr fits a model that has."),
        (dpsvm, "link", "margins are the linear predictor."),
    ],
)
def test_types_that_are_refused(model, asked, words):
    with pytest.raises(ArgumentError) as error:
        fit_clinic(clinic(), model=model).predict(clinic(), type=asked)
    assert words in str(error.value)


def test_a_class_by_the_name_of_r_has_no_interval():
    fit = fit_clinic(clinic(), spend="inference")
    with pytest.raises(ArgumentError, match="a class has no interval"):
        fit.predict(clinic(), type="class", interval=0.95)
    found = fit.predict(clinic(), type="response", interval=0.95)
    pd.testing.assert_frame_equal(found, fit.predict(clinic(), interval=0.95))
