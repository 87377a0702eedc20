"""The front door of models of chosen columns, and the laws that hold behind it."""

import io
import json
import math
import pickle
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.resources import files

import jsonschema
import numpy as np
import pandas as pd
import pytest
from case_names import case_name
from frames_for_laws import clinic, fit_clinic, fixed_noise, replaced, scores, stored
from scipy import sparse

import privatelr.call_data
from privatelr import (
    ZCDP,
    ApproxDP,
    ArgumentError,
    FormulaError,
    GuaranteeError,
    Ledger,
    NonPrivate,
    PrivacyWarning,
    PureDP,
    ReleaseFileError,
    SchemaError,
    dplpsvm,
    dpsimplex,
    load,
)
from privatelr.errors import NoRelease
from privatelr.numerics.rows import EntryRows
from privatelr.privacy.accounting import Entry, epsilon_of
from privatelr.results.release_files import content_hash

DOORS = {"program": dplpsvm, "simplex": dpsimplex}
EVERY_DOOR = pytest.mark.parametrize("model", DOORS.values(), ids=DOORS)
VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((files("privatelr.results") / "release.schema.json").read_text("utf-8"))
)
PRICES = [
    {"eps": 4.0},
    {"eps": 8.0, "delta": 0.0},
    {"eps": ZCDP(2.0)},
    {"eps": ApproxDP(3.0, 1e-5)},
    {"eps": 0},
    {"eps": math.inf},
    {"eps": NonPrivate("none: a look at public data")},
]


def fitted(model, frame=None, **options):
    return fit_clinic(clinic(n=300) if frame is None else frame, model=model, **options)


def learnable(n=4000, seed=3):
    """Records whose response follows the dose."""
    frame = clinic(n=n, seed=seed)
    rng = np.random.default_rng(seed)
    return frame.assign(y=(frame["dose"] + rng.normal(scale=0.3, size=n) > 2.5).astype(float))


# -- what a user does ------------------------------------------------------------------------


@EVERY_DOOR
@pytest.mark.parametrize("price", PRICES, ids=str)
def test_every_price_gives_a_fit_that_prints_predicts_and_is_read_back(model, price, tmp_path):
    frame = clinic(n=300)
    fit = fitted(model, frame, **price)
    if isinstance(fit.guarantee, NonPrivate):
        assert "Non-private" in str(fit)
    else:
        assert str(fit.guarantee).split(" (")[0] in str(fit)
    assert all(len(line) < 80 for line in str(fit).splitlines())
    fit.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    loaded = load(tmp_path / "model.json")
    for kind in ("classes", "margins"):
        pd.testing.assert_series_equal(loaded.predict(frame, kind), fit.predict(frame, kind))
    pd.testing.assert_series_equal(loaded.coef, fit.coef)
    pd.testing.assert_frame_equal(loaded.tidy(), fit.tidy())
    pd.testing.assert_frame_equal(loaded.glance(), fit.glance())
    pd.testing.assert_frame_equal(loaded.selected, fit.selected)
    assert loaded.guarantee == fit.guarantee
    assert loaded.calibration == fit.calibration
    unread = replace(loaded, origin=None)
    assert str(unread) == str(replace(fit, _diagnostics=None))
    assert unread.card() == fit.card()
    assert "<table>" in fit._repr_html_()
    assert fit.card("html").startswith("<!DOCTYPE html>")


@EVERY_DOOR
def test_the_column_that_matters_is_chosen(model):
    frame = learnable()
    fit = fitted(model, frame, eps=2.0, delta=1e-6)
    assert fit.selected.iloc[0].tolist()[:2] == ["dose", "+"]
    assert (fit.predict(frame) == frame["y"]).mean() > 0.85


def test_a_logistic_simplex_predicts_probabilities_and_odds():
    frame = learnable()
    fit = fitted(dpsimplex, frame, loss="logistic", radius=10.0)
    chance = fit.predict(frame)
    assert chance.name == "probability"
    assert chance.between(0, 1).all()
    link = fit.predict(frame, "link")
    np.testing.assert_allclose(chance, 1 / (1 + np.exp(-link)))
    np.testing.assert_allclose(fit.odds_ratios, np.exp(fit.coef))
    with pytest.raises(ArgumentError, match="odds_ratios"):
        _ = fitted(dplpsvm, frame).odds_ratios


@EVERY_DOOR
def test_coefficients_are_in_the_users_units(model):
    frame = clinic(n=300)
    fit = fitted(model, frame)
    coef = fit.coef
    margin = (
        coef["(Intercept)"]
        + coef["age"] * frame["age"]
        + coef["dose"] * frame["dose"]
        + coef["smoker[T.yes]"] * (frame["smoker"] == "yes")
    )
    np.testing.assert_allclose(fit.predict(frame, "margins"), margin, atol=1e-9)


@EVERY_DOOR
def test_coefficients_are_counts(model):
    fit = fitted(model, eps=20.0)
    counts = fit.release.counts
    d = len(fit.coef)
    shares = (counts[:d] - counts[d:]) / counts.sum()
    np.testing.assert_array_equal(fit.release.coef, shares)
    assert fit.selected["times"].sum() == counts.sum() > 1
    assert np.abs(fit.release.coef).sum() <= 1
    path = fit.release.path
    if model is dplpsvm:
        np.testing.assert_array_equal(np.bincount(path, minlength=2 * d), counts)
    else:
        assert path is None


@EVERY_DOOR
def test_a_sparse_matrix_is_fitted_without_a_formula(model, tmp_path):
    rng = np.random.default_rng(5)
    x = sparse.random_array((3000, 400), density=0.02, rng=rng, format="csc")
    x = sparse.csr_array(sparse.hstack([rng.uniform(-1, 1, (3000, 1)), x]))
    y = pd.Series(np.where(x[:, [0]].toarray().ravel() > 0, "yes", "no"), name="bought")
    fit = model(y, x, eps=2.0, levels={"bought": ["no", "yes"]})
    assert fit.selected["term"][0] == "X1"
    assert fit.coef.index[0] == "(Intercept)"
    assert len(fit.coef) == 402
    assert "are not zero" in str(fit)
    found = fit.predict(x)
    assert (found.to_numpy() == y.to_numpy()).mean() > 0.9
    np.testing.assert_array_equal(fit.predict(x.toarray()), found)
    fit.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    loaded = load(tmp_path / "model.json")
    pd.testing.assert_series_equal(loaded.predict(x), found)
    assert fit.card() == replace(loaded, origin=None).card()
    with pytest.raises(SchemaError, match="data of 7 columns: the fit was of 401"):
        fit.predict(x[:, :7])
    with pytest.raises(FormulaError, match="no names for a formula"):
        model("y ~ .", x)


@EVERY_DOOR
def test_sparse_and_dense_give_the_same_choices(model, monkeypatch):
    rng = np.random.default_rng(6)
    x = np.where(rng.uniform(size=(500, 30)) < 0.2, rng.uniform(-1, 1, (500, 30)), 0.0)
    y = np.where(x[:, 0] + x[:, 1] > 0, 1, 0)
    frame = pd.DataFrame(x, columns=[f"X{j + 1}" for j in range(30)]).assign(y=y)
    with fixed_noise(monkeypatch):
        declared = {"levels": {"y": [0, 1]}}
        by_matrix = model(y, sparse.csr_array(x), eps=3.0, **declared)
        by_frame = model("y ~ .", frame, eps=3.0, **declared)
    np.testing.assert_array_equal(by_matrix.release.counts, by_frame.release.counts)


@EVERY_DOOR
def test_factors_of_many_levels_are_read_without_zeros_and_give_the_same(model, monkeypatch):
    frame = clinic(n=400)
    frame["ward"] = np.random.default_rng(3).choice(list("abcdefghijkl"), 400)
    frame.loc[7, "ward"] = "elsewhere"  # a level that was not declared: a row of zeros
    frame.loc[9, "age"] = np.nan
    schema = {"levels": {"ward": list("abcdefghijkl")}, "bounds": {"age": (18, 90), "y": (0, 1)}}
    read = []
    honest = EntryRows.__init__

    def seen(self, covariates, *args, **options):
        read.append(sparse.issparse(covariates))
        honest(self, covariates, *args, **options)

    monkeypatch.setattr(EntryRows, "__init__", seen)
    with fixed_noise(monkeypatch):
        thin = model("y ~ ward + age", frame, eps=4.0, **schema)
        monkeypatch.setattr(privatelr.call_data, "few_are_filled", lambda density: False)
        full = model("y ~ ward + age", frame, eps=4.0, **schema)
    assert read == [True, False]
    np.testing.assert_array_equal(thin.release.counts, full.release.counts)
    assert thin.diagnostics.c_index == full.diagnostics.c_index


@EVERY_DOOR
def test_a_ledger_is_charged_and_refuses(model):
    with Ledger(epsilon=3.0, delta=1e-5) as ledger:
        fit = fitted(model, eps=2.0, delta=1e-6)
        assert fit.release.entry in ledger.entries
        assert ledger.spent() < 2.1  # the choices in detail, at a larger delta
        with pytest.raises(GuaranteeError, match="left"):
            fitted(model, eps=30.0, delta=1e-6)
        with pytest.raises(GuaranteeError):
            fitted(model, eps=0)
    (entry,) = ledger.entries
    assert entry.events == fit.calibration.events
    alone = Entry(entry.label, entry.guarantee, entry.events)
    assert epsilon_of([alone], 1e-6) <= 2.0 * (1 + 1e-9)


# -- slips -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda f: fitted(dplpsvm, f, density=1.0), ArgumentError, "density=1"),
        (lambda f: fitted(dplpsvm, f, density=0.001), GuaranteeError, "density=0.001"),
        (lambda f: fitted(dplpsvm, f, rounds=0), ArgumentError, "rounds=0"),
        (lambda f: fitted(dplpsvm, f, score="best"), ArgumentError, "score='best'"),
        (lambda f: fitted(dplpsvm, f, score="count", slack=1.0), ArgumentError, "slack=1"),
        (lambda f: fitted(dplpsvm, f, minority=0.7), ArgumentError, "minority=0.7"),
        (lambda f: fitted(dpsimplex, f, loss="hinge"), ArgumentError, "loss='hinge'"),
        (lambda f: fitted(dpsimplex, f, radius=-1), ArgumentError, "radius=-1"),
        (lambda f: fitted(dpsimplex, f, draws=0), GuaranteeError, "draws=0"),
        (lambda f: fitted(dpsimplex, f, lambda_=0), GuaranteeError, "lambda_=0"),
        (lambda f: fitted(dplpsvm, f, eps=-1), GuaranteeError, "eps=-1"),
        (lambda f: fitted(dplpsvm, f, delta=0.01), GuaranteeError, r"delta=0.01: .* below 1/n"),
        (lambda f: fitted(dplpsvm, f, na_action="drop"), ArgumentError, "na_action='drop'"),
        (lambda f: fitted(dplpsvm, f, seed="x"), ArgumentError, "seed='x'"),
    ],
)
def test_a_slip_is_one_sentence(ask, error, message):
    with pytest.raises(error, match=f"^{message}"):
        ask(clinic(n=300))


def test_no_release_names_the_smallest_lambda_that_works():
    with pytest.raises(NoRelease) as caught:
        fitted(dpsimplex, eps=0.5, lambda_=1e-4)
    least = caught.value.lambda_min
    assert f"{least:.4g}"[:4] in str(caught.value)
    assert fitted(dpsimplex, eps=0.5, lambda_=least).release.counts.sum() == 1
    with pytest.raises(NoRelease):
        fitted(dpsimplex, eps=0.5, lambda_=0.99 * least)


def test_a_density_above_twice_the_minority_warns():
    with pytest.warns(PrivacyWarning, match=r"density=0.25 is above twice minority=0.1") as caught:
        fitted(dplpsvm, minority=0.1)
    assert caught[0].filename.endswith("frames_for_laws.py")
    fitted(dplpsvm, minority=0.2)


@EVERY_DOOR
def test_a_large_delta_and_a_seed_warn(model):
    with pytest.warns(PrivacyWarning, match=r"delta=0.001 is above n\*\*-1.5"):
        fitted(model, eps=2.0, delta=1e-3)
    with pytest.warns(PrivacyWarning, match="seed=1"):
        first = fitted(model, seed=1)
    with pytest.warns(PrivacyWarning, match="seed=1"):
        second = fitted(model, seed=1)
    assert isinstance(first.guarantee, NonPrivate)
    np.testing.assert_array_equal(first.release.counts, second.release.counts)


# -- laws ------------------------------------------------------------------------------------

CHANGES = [
    {"age": 61.12345678901234},
    {"age": 1e300},
    {"age": np.nan},
    {"dose": -5.0},
    {"smoker": "undeclared"},
    {"y": 1},
    {"y": 0},
    {"y": 7},
]


def unpaid(model, frame, **options):
    """All that a user sees of a fit but for what was paid for, with prints and warnings."""
    output = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(output):
        warnings.simplefilter("always")
        fit = fit_clinic(frame, model=model, verbose=1, **options)
    d = len(fit.coef)
    blank = np.zeros(2 * d, dtype=np.intp)
    blank[0] = fit.release.counts.sum()
    path = None if fit.release.path is None else np.zeros_like(fit.release.path)
    exact = None if fit.release.exact is None else np.zeros(d)
    shown = replace(fit, release=replace(fit.release, counts=blank, path=path, exact=exact))
    page = str(shown) + shown._repr_html_()
    said = "".join(str(warning.message) for warning in caught)
    return stored(shown), repr(shown), page, shown.tidy().to_csv(), output.getvalue(), said


@EVERY_DOOR
@pytest.mark.parametrize("values", CHANGES, ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"threshold": "youden"}, {"bounds": None}, {"eps": 0}], ids=str
)
def test_changing_a_record_changes_what_was_paid_for_and_nothing_else(
    monkeypatch, model, values, options
):
    frame = clinic(n=60)
    with fixed_noise(monkeypatch):
        first = unpaid(model, frame, **options)
        second = unpaid(model, replaced(frame, 0, **values), **options)
    assert first == second


@EVERY_DOOR
def test_what_a_page_learns_from_the_data_is_caught(monkeypatch, model):
    honest = privatelr.call_data.plan_design

    def curious(formula, frame, schema):
        bounds = {**schema.bounds, "age": (18.0, float(frame["age"].max()))}
        return honest(formula, frame, replace(schema, bounds=bounds))

    monkeypatch.setattr(privatelr.call_data, "plan_design", curious)
    frame = clinic(n=60)
    with fixed_noise(monkeypatch):
        first, second = (unpaid(model, f) for f in (frame, replaced(frame, 0, age=1e5)))
    assert first != second


@EVERY_DOOR
@pytest.mark.parametrize("value", [0, 1])
def test_one_class_takes_the_same_path(model, value):
    fit = fitted(model, clinic(n=300).assign(y=value), eps=1.0, threshold="youden")
    assert np.isfinite(fit.coef).all()
    assert fit.release.counts.sum() >= 1
    str(fit)
    fit.predict(clinic(), type="classes")


@EVERY_DOOR
def test_predictions_are_row_by_row_and_at_the_bounds(model):
    frame = clinic(n=300)
    fit = fitted(model, frame)
    together = scores(fit, frame)
    apart = pd.concat([scores(fit, frame.iloc[[row]]) for row in range(20)])
    np.testing.assert_array_equal(apart, together.iloc[:20])
    beyond = fit.predict(frame.assign(age=1e9), "margins")
    np.testing.assert_array_equal(beyond, fit.predict(frame.assign(age=90.0), "margins"))
    assert fit.predict(frame.assign(age=np.nan), "margins").isna().all()


@EVERY_DOOR
def test_a_stored_fit_keeps_neither_data_nor_diagnostics(model):
    mark = 61.12345678901234
    frame = clinic(n=60)
    frame.loc[0, "age"] = mark
    fit = fitted(model, frame, threshold="youden")
    data = stored(fit)
    assert np.float64(mark).tobytes() not in data
    assert np.float64(mark).tobytes()[::-1] not in data
    loaded = pickle.loads(data)
    with pytest.raises(GuaranteeError, match="not kept"):
        _ = loaded.diagnostics
    with pytest.raises(GuaranteeError, match="not kept"):
        loaded.predict(frame, "classes")
    np.testing.assert_array_equal(loaded.coef, fit.coef)


def test_the_minimiser_is_nowhere_in_a_private_simplex_fit():
    fit = fitted(dpsimplex, eps=2.0)
    assert fit.release.exact is None
    plain = fitted(dpsimplex, eps=0, lambda_=fit.calibration.lambda_)
    data = stored(fit)
    for number in plain.release.coef:
        assert np.float64(number).tobytes() not in data
    assert np.float64(plain.release.coef[1]).tobytes() in stored(plain)


@EVERY_DOOR
def test_the_calibration_is_that_of_any_data(model):
    frame = clinic(n=60)
    others = (frame, frame.assign(age=1e9, dose=-1e9), frame.assign(y=1.0, smoker="neither"))
    calibrations = [fitted(model, other).calibration for other in others]
    assert calibrations[0] == calibrations[1] == calibrations[2]


# -- files that lie --------------------------------------------------------------------------


def changed(document, *path, to):
    *first, last = path
    inner = document
    for key in first:
        inner = inner[key]
    inner[last] = to
    document["sha256"] = content_hash(document)
    return document


LIES = {
    dplpsvm: [
        (("call", "target", "epsilon"), 1.0),
        (("derived", "eta"), 9.0),
        (("call", "rounds"), 1),
        (("derived", "sensitivity"), 1e-3),
        (("derived", "x_bound"), 0.5),
        (("call", "mechanism"), "simplex draws"),
        (("released", "path"), None),
        (("released", "times"), []),
        (("released", "exact"), [0.0] * 4),
        (("inference",), {}),
        (("guarantee", "epsilon"), 1.0),
        (("derived", "design_units"), [1.0, 0.0, 0.0, 0.0]),
    ],
    dpsimplex: [
        (("call", "target", "epsilon"), 1.0),
        (("call", "lambda"), 1e-3),
        (("call", "draws"), 10**6),
        (("derived", "stability", "largest"), 1e-6),
        (("call", "radius"), 0.1),
        (("released", "options"), [0, 0]),
        (("released", "path"), [0]),
    ],
}


@pytest.mark.parametrize(
    ("model", "path", "value"),
    [(model, *lie) for model, lies in LIES.items() for lie in lies],
    ids=case_name,
)
def test_a_file_that_contradicts_itself_is_refused(model, path, value, tmp_path):
    fit = fitted(model, eps=4.0)
    assert fit.guarantee == ApproxDP(4.0, 1e-6)
    fit.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    (tmp_path / "lie.json").write_text(json.dumps(changed(document, *path, to=value)))
    with pytest.raises(ReleaseFileError, match=r"lie\.json"):
        load(tmp_path / "lie.json")


def test_pure_privacy_is_bought_by_few_choices():
    fit = fitted(dplpsvm, eps=3.0, delta=0.0)
    assert fit.guarantee == PureDP(3.0)
    calibration = fit.calibration
    assert calibration.eta * calibration.rounds <= 3.0


# -- entries that are stored in parts --------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
def test_an_entry_that_is_stored_in_parts_is_held_to_the_bound(form):
    """SciPy adds up what is stored for one place; a bound on the parts would not hold."""
    n, parts = 40, 400
    counts = np.r_[0, np.full(n, parts)]
    loud = sparse.csr_array((np.ones(parts), np.zeros(parts, int), counts), shape=(n, 2))
    given = loud.asformat(form)
    labels = np.tile([1.0, -1.0], n // 2)
    rows = EntryRows(given, labels, x_bound=1.0, intercept=1.0)
    assert np.abs(rows.signed()).max() == 1.0
    dense = EntryRows(loud.toarray(), labels, x_bound=1.0, intercept=1.0)
    np.testing.assert_array_equal(rows.signed(), dense.signed())
    assert loud.data.tolist() == [1.0] * parts  # the user's matrix is as it was
    for model in DOORS.values():
        fit = model(labels, given, eps=3.0, levels={"y": [-1, 1]})
        np.testing.assert_array_equal(
            fit.predict(given, "margins"), fit.predict(loud.toarray(), "margins")
        )


def test_planted_bound_on_the_parts_is_caught(monkeypatch):
    monkeypatch.setattr(
        "privatelr.numerics.rows.entries.merged", lambda matrix: sparse.csr_array(matrix, copy=True)
    )
    with pytest.raises(AssertionError):
        test_an_entry_that_is_stored_in_parts_is_held_to_the_bound("csr")


def test_a_refusal_survives_another_process():
    with pytest.raises(NoRelease) as caught:
        fitted(dpsimplex, eps=0.5, lambda_=1e-4)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.lambda_min) == (str(caught.value), caught.value.lambda_min)


def test_an_intercept_beyond_the_bound_is_refused():
    with pytest.raises(ValueError, match="intercept=2 is beyond x_bound=1"):
        EntryRows(np.zeros((3, 1)), np.ones(3), x_bound=1.0, intercept=2.0)


@EVERY_DOOR
def test_a_matrix_is_predicted_with_the_bound_of_its_fit(model):
    """An intercept above one raises the bound of all entries, in the fit and after it."""
    rng = np.random.default_rng(8)
    x = sparse.csr_array(3 * rng.standard_normal((300, 4)))
    fit = model(x[:, [0]].toarray().ravel() > 0, x, eps=5.0, intercept_scale=2.0)
    coef = fit.release.coef
    expected = 2 * coef[0] + np.clip(x.toarray(), -2, 2) @ coef[1:]
    np.testing.assert_allclose(fit.predict(x, "margins"), expected, atol=1e-12)


@EVERY_DOOR
def test_a_page_is_printed_where_arithmetic_is_strict(model):
    """Scores that are next to nothing would be an exception about the records that have them."""
    rng = np.random.default_rng(1)
    values = np.array([0, 1, -1, 1e-308, 5e-324, 2.0, 0.5])
    frame = pd.DataFrame(rng.choice(values, (200, 2)), columns=["x", "z"])
    frame["y"] = rng.integers(0, 2, 200) == 1
    with np.errstate(all="raise"):
        for _ in range(12):  # it takes scores that underflow when they are halved
            fit = model("y ~ x * z", frame, eps=5.0)
            assert "Differentially private" in str(fit)
            assert len(fit.predict(frame)) == 200
