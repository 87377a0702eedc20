"""`dpmultinom`: from a call to a fit, its views, its file, and what it refuses."""

import json
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from repeated_noise import drawn

import privatelr as lr
from privatelr import dpmultinom
from privatelr.cli import main
from privatelr.privacy import ZCDP
from privatelr.results.release_files import content_hash

CLASSES = ("a", "b", "c")
SCHEMA = {
    "bounds": {"age": (20.0, 80.0), "dose": (0.0, 5.0), "w": (0.0, 2.0)},
    "levels": {"y": CLASSES, "smoker": ("no", "yes")},
}
FORMULA = "y ~ age + dose + smoker"


def study(n=400, seed=0):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 80, n), rng.uniform(0, 5, n)
    smoker = rng.choice(["no", "yes"], n)
    links = np.column_stack(
        [np.zeros(n), 0.06 * (age - 50), 0.8 * (dose - 2.5) - 0.7 * (smoker == "yes")]
    )
    place = (links + rng.gumbel(size=links.shape)).argmax(axis=1)
    y = np.array(CLASSES)[place]
    return pd.DataFrame({"y": y, "age": age, "dose": dose, "smoker": smoker, "w": 1.0})


def plain(data, formula=FORMULA, **options):
    return dpmultinom(formula, data, eps=0, **{"lambda_": 1e-8, **options}, **SCHEMA)


def test_the_plain_fit_is_that_of_statsmodels():
    data = study(2000)
    covariates = data[["age", "dose"]].assign(smoker=(data.smoker == "yes").astype(float))
    codes = data.y.map({c: i for i, c in enumerate(CLASSES)})
    expected = sm.MNLogit(codes, sm.add_constant(covariates)).fit(disp=0, maxiter=100)
    found = plain(data)
    np.testing.assert_allclose(found.coef.to_numpy(), expected.params.to_numpy(), atol=2e-4)
    np.testing.assert_allclose(found.predict(data), expected.predict(), atol=2e-5)
    assert list(found.coef.columns) == ["b", "c"]
    assert list(found.coef.index) == ["(Intercept)", "age", "dose", "smoker[T.yes]"]


def test_weights_are_records_and_a_subset_is_zero_rows():
    data = study(300)
    doubled = pd.concat([data, data[:100]])
    weighted = data.assign(w=np.where(np.arange(300) < 100, 2.0, 1.0))
    # the objective is a mean over n rows whose weights are over the largest
    ours = plain(weighted, weights="w", lambda_=1e-4 / 300)
    theirs = plain(doubled, lambda_=2e-4 / 400)
    np.testing.assert_allclose(ours.coef, theirs.coef, rtol=1e-6)
    part = plain(data, subset="age > 50", lambda_=1e-4 / 300)
    few = data[data.age > 50]
    np.testing.assert_allclose(part.coef, plain(few, lambda_=1e-4 / len(few)).coef, rtol=1e-6)
    assert part.nobs == 300


def test_a_person_counts_once_by_the_mean_over_the_records():
    data = study(300)
    repeated = pd.concat([data, data[:100], data[:100]]).assign(
        who=[*range(300), *range(100), *range(100)]
    )
    once = plain(data, lambda_=1e-4 / 300)
    ours = plain(repeated, person="who", lambda_=1e-4 / 300)
    assert ours.nobs == 300
    np.testing.assert_allclose(ours.coef, once.coef, rtol=1e-6)
    fit = dpmultinom(FORMULA, repeated, 3.0, person="who", **SCHEMA)
    assert "all records of one of m = 300 persons" in " ".join(str(fit).split())
    assert not re.search(r"(?<![\d.])500\b", str(fit))


def test_an_undeclared_class_or_a_missing_value_is_a_zero_row():
    data = study(200)
    odd = data.copy()
    odd.loc[0, "y"], odd.loc[1, "y"], odd.loc[2, "dose"] = "z", None, np.nan
    found = plain(odd, lambda_=1e-4 / 200)
    rest = plain(data[3:], lambda_=1e-4 / 197)
    assert found.nobs == 200
    np.testing.assert_allclose(found.coef, rest.coef, rtol=1e-6)


PROMISES = {
    "pure": {"eps": 3.0},
    "delta": {"eps": 3.0, "delta": 1e-6},
    "zcdp": {"eps": ZCDP(0.5)},
    "output": {"eps": 3.0, "op": False},
    "scale": {"eps": 3.0, "do_scale": "private"},
    "scale, zcdp": {"eps": ZCDP(2.0), "do_scale": "private"},
    "persons": {"eps": lr.PureDP(3.0, "person"), "person": "who"},
    "persons, zcdp": {"eps": ZCDP(2.0, "person"), "person": "who"},
    "persons, delta": {"eps": 3.0, "delta": 1e-6, "person": "who"},
    "weights": {"eps": 3.0, "weights": "w", "subset": "age > 30"},
}


@pytest.mark.parametrize("name", PROMISES)
def test_a_fit_under_every_promise_is_charged_shown_and_saved(name, tmp_path):
    options = dict(PROMISES[name])
    about = "person" if "person" in options else "replace"
    data, ledger = study(), lr.Ledger(4.0, 1e-5, neighbours=about)
    data["who"] = np.arange(len(data)) // 2
    if not isinstance(options["eps"], ZCDP):
        options["ledger"] = ledger
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lr.SchemaWarning)
        fit = dpmultinom(FORMULA, data, **options, **SCHEMA)
    if "ledger" in options:
        assert ledger.spent(1e-5 if "delta" in options else 0.0) == pytest.approx(3.0)
    text = str(fit)
    assert "Differentially private multinomial logistic regression" in text
    assert text.count("Promise") == 1
    assert str(fit.guarantee) in text
    assert max(map(len, text.splitlines())) <= 79
    assert "<table" in fit._repr_html_()
    fit.save(tmp_path / "fit.json")
    back = lr.load(tmp_path / "fit.json")
    assert isinstance(back, lr.MultinomialFit)
    pd.testing.assert_frame_equal(back.coef, fit.coef)
    pd.testing.assert_frame_equal(back.predict(data), fit.predict(data))
    assert str(back.guarantee) == str(fit.guarantee)
    assert "softmax of 3 classes" in back.card()
    assert "C-index" not in back.card()
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(fit)).coef, fit.coef)
    assert fit.glance().classes.item() == 3
    tidy = fit.tidy()
    assert len(tidy) == 2 * 4
    assert (tidy.privacy_sd_limit > 0).all()
    np.testing.assert_allclose(fit.odds_ratios, np.exp(fit.coef))


def test_predictions_are_row_wise_and_agree_with_each_other():
    data = study()
    data.loc[3, "age"] = np.nan
    fit = dpmultinom(FORMULA, data, 5.0, **SCHEMA)
    shares, links = fit.predict(data), fit.predict(data, type="link")
    np.testing.assert_allclose(shares.dropna().sum(axis=1), 1.0)
    assert shares.isna().all(axis=1).to_numpy().nonzero()[0].tolist() == [3]
    np.testing.assert_allclose(links["c"], np.log(shares["c"] / shares["a"]), rtol=1e-9, atol=1e-12)
    classes = fit.predict(data, type="classes")
    assert (classes.drop(3) == shares.drop(index=3).idxmax(axis=1)).all()
    for i in (0, 3, 7):
        pd.testing.assert_frame_equal(fit.predict(data[i : i + 1]), shares[i : i + 1])
    pd.testing.assert_frame_equal(fit.predict(data, type="probs"), shares)
    with pytest.raises(lr.ArgumentError, match="probabilities"):
        fit.predict(data, type="odds")


def test_nothing_but_what_was_paid_for_differs_between_neighbours():
    """Under one noise, a fit to a neighbour with any odd record has the same page but estimates."""
    data = study()
    other = data.copy()
    other.loc[0] = ["unheard of", np.inf, -1e9, "perhaps", np.nan]

    def told(frame):
        fit = drawn(dpmultinom, FORMULA, frame, 2.0, **SCHEMA)
        numbers = [*fit.coef.to_numpy().ravel()]
        table = fit.summary().coefficients
        limit = table.headers.index("noise sd limit")
        kept = [(name, cells[limit]) for name, cells in zip(table.names, table.cells, strict=True)]
        lines = [one for one in str(fit).splitlines() if not one.startswith(tuple(table.names))]
        return numbers, (kept, " ".join(lines).split())

    (first, page), (second, again) = told(data), told(other)
    assert first != second
    assert page == again
    held = pickle.dumps(drawn(dpmultinom, FORMULA, data, 2.0, **SCHEMA))
    assert data.age.iloc[5].tobytes() not in held


def test_calibration_takes_no_data_and_one_lambda_is_used():
    one = dpmultinom(FORMULA, study(), 1.0, **SCHEMA)
    two = dpmultinom(FORMULA, study(seed=9).assign(y="a"), 1.0, **SCHEMA)  # one class only
    assert one.calibration == two.calibration
    sizes = [
        float(np.abs(dpmultinom(FORMULA, study(), 1e3, lambda_=x, **SCHEMA).release.coef).sum())
        for x in (0.001, 0.1, 10.0)
    ]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("numbers", [(0, 1, 2), (0.0, 1.0, 2.0)])
@pytest.mark.parametrize("typed", [False, True])
def test_numbers_are_classes_and_two_of_them_are_left_to_dplr(numbers, typed, tmp_path):
    data = study()
    expected = plain(data)
    coded = data.assign(y=data.y.map(dict(zip(CLASSES, numbers, strict=True))))
    schema = {**SCHEMA, "levels": {**SCHEMA["levels"], "y": numbers}}
    if typed:
        coded["y"] = pd.Categorical(coded.y, numbers)
        del schema["levels"]["y"]
    found = dpmultinom(FORMULA, coded, eps=0, lambda_=1e-8, **schema)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-9)
    assert found.predict(coded, type="classes").isin(numbers).all()
    found.save(tmp_path / "fit.json")
    assert lr.load(tmp_path / "fit.json").classes == numbers
    assert str(found)
    assert found.card()
    with pytest.raises(lr.SchemaError, match=r"takes two values.*by dpmultinom"):
        lr.dplr(FORMULA, coded, eps=1.0, ledger=(ledger := lr.Ledger(1.0)), **schema)
    assert not ledger.entries


REFUSED = {
    "an order": ({"y": pd.Categorical(["a", "b", "c"] * 100, ordered=True)}, {}, "an order"),
    "ordered()": ({}, {"formula": "ordered(y) ~ age"}, "%in%"),
    "an offset": ({}, {"formula": "y ~ age + offset(dose)"}, "every class alike"),
    "strata": ({}, {"formula": "y ~ age + by(smoker)"}, "change strata"),
    "one stratum": ({}, {"formula": "y ~ age + by(smoker, 'no')"}, "change strata"),
    "strata by argument": ({}, {"by": "smoker"}, "dplr and dpsvm fit strata"),
    "two levels": ({}, {"formula": "smoker ~ age"}, "three or more"),
    "a comparison": ({}, {"formula": "y == 'a' ~ age"}, "three or more"),
    "inference": ({}, {"spend": "inference"}, "not built"),
    "roc": ({}, {"spend": {"coefficients": 0.5, "roc": 0.5}}, "not built"),
    "cms11": ({}, {"analysis": "cms11"}, "two classes"),
    "many columns": (
        {},
        {"formula": f"y ~ {'+'.join(f'I(age > {i})' for i in range(200))}"},
        "500",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proven_or_built_is_refused_in_a_sentence(name):
    columns, options, said = REFUSED[name]
    schema = dict(SCHEMA)
    if name == "an order":
        schema["levels"] = {"smoker": ("no", "yes")}
    given = {"formula": FORMULA, "eps": 1.0, **options, **schema}
    with pytest.raises(lr.PrivateLRError, match=said) as raised:
        dpmultinom(data=study(300).assign(**columns), **given)
    assert str(raised.value).count("\n") == 0


PRIOR = {"means": [["age", 0.1]], "source": "as given", "sds": [], "uncovered": False}


@pytest.mark.parametrize(
    ("part", "entry", "value", "said"),
    [
        ("design", "prior", PRIOR, "prior"),
        ("design", "formula", 'y ~ age + by(smoker, "no")', "change strata"),
        ("design", "several_classes", False, "takes 2 numbers"),
    ],
)
def test_a_file_of_what_is_not_proven_is_refused(part, entry, value, said, tmp_path):
    path = tmp_path / "model.json"
    fit = dpmultinom("y ~ age", study(300), 1.0, subset="smoker == 'no'", do_scale=False, **SCHEMA)
    fit.save(path)
    document = json.loads(path.read_text())
    document["call"][part][entry] = value
    document["sha256"] = content_hash(document)
    path.write_text(json.dumps(document))
    with pytest.raises(lr.ReleaseFileError, match=said):
        lr.load(path)


def test_the_command_line_fits_predicts_and_refuses(tmp_path, capsys):
    table, model = tmp_path / "study.csv", tmp_path / "model.json"
    study().to_csv(table, index=False)
    declared = ["--bounds", "age=20:80", "--bounds", "dose=0:5", "--levels", "smoker=no,yes"]
    several = [*declared, "--levels", "y=a,b,c", "--method", "multinomial"]
    assert main(["fit", str(table), FORMULA, *several, "--out", str(model)]) == 0
    assert "multinomial logistic regression" in capsys.readouterr().out
    assert main(["predict", str(model), str(table)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "a,b,c"
    assert len(out) == 401
    assert sum(map(float, out[1].split(","))) == pytest.approx(1.0)
    assert main(["predict", str(model), str(table), "--type", "classes", "--json"]) == 0
    assert '"name": "class"' in capsys.readouterr().out
    assert main(["card", str(model)]) == 0
    assert "softmax of 3 classes" in capsys.readouterr().out
    for wrong, said in (
        (["predict", str(model), str(table), "--threshold", "0.3"], "--threshold"),
        (["fit", str(table), FORMULA, *several, "--prior", "age=1"], "--prior"),
        (["fit", str(table), "y ~ age", *several, "--by", "smoker"], "--by goes with"),
        (["fit", str(table), FORMULA, *several, "--spend", "inference"], "not built"),
    ):
        assert main(wrong) != 0
        assert said in capsys.readouterr().err
    assert main(["plan", FORMULA, "--n", "100", *several]) == 0
    assert "b: age" in capsys.readouterr().out
