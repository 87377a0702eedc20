"""Fits to the levels of a column: one price, a fit for each level, one page, one file."""

import json

import numpy as np
import pandas as pd
import pytest

import privatelr
from privatelr import (
    ZCDP,
    ApproxDP,
    ArgumentError,
    FormulaError,
    GuaranteeError,
    Ledger,
    PureDP,
    ReleaseFileError,
    SchemaError,
    Strata,
    compare,
    dplpsvm,
    dplr,
    dpsvm,
    load,
)
from privatelr.call_data import read_data
from privatelr.privacy.accounting.agreement import implied
from privatelr.results.release_files import content_hash
from privatelr.sources import declare_schema

BOX = {"x": (0, 1), "y": (0, 1)}
DECLARED = {"bounds": {"age": (18, 90)}, "levels": {"sex": ["female", "male"]}}
PRICES = [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    n = 3000
    sex = rng.choice(["female", "male", "other", None], n, p=[0.5, 0.4, 0.05, 0.05])
    age = rng.uniform(18, 90, n)
    link = (age - 50) / 15 * np.where(sex == "female", 1, -1)
    return pd.DataFrame({"age": age, "sex": sex, "y": rng.random(n) < 1 / (1 + np.exp(-link))})


@pytest.fixture(scope="module")
def fits(table):
    return dplr("y ~ .", table, 1.0, by="sex", spend="inference", **DECLARED)


@pytest.mark.parametrize("asked", [{}, {"prior": {"age": (0.02, 0.002), "(Intercept)": -1}}])
@pytest.mark.parametrize("fit", [dplr, dpsvm])
def test_without_noise_each_stratum_is_the_fit_to_its_records(fit, asked, table):
    """The penalty is of the mean over n, so that the fit to a part of the records has more."""
    found = fit("y ~ age", table, 0, 1e-6, by="sex", **asked, **DECLARED)
    assert isinstance(found, Strata)
    assert list(found) == ["female", "male"]
    for level in found:
        own = table[table.sex == level]
        penalty = 1e-6 * len(table) / len(own)
        alone = fit("y ~ age", own, 0, penalty, bounds=DECLARED["bounds"], **asked)
        np.testing.assert_allclose(found[level].coef, alone.coef, rtol=1e-5)
        assert found[level].nobs == len(table)


@pytest.mark.filterwarnings("ignore:seed=")
def test_by_as_an_argument_and_as_a_term_are_the_same(table):
    one = dplr("y ~ .", table, 1.0, by="sex", seed=1, **DECLARED)
    other = dplr("y ~ age + by(sex)", table, 1.0, seed=1, **DECLARED)
    pd.testing.assert_frame_equal(one.coef, other.coef)
    assert one["male"].formula == other["male"].formula == 'y ~ age + by(sex, "male")'


@pytest.mark.parametrize("levels", [[1, 2], [0.5, -3.0], [True, False], ['a "b"\\', "c' `d`"]])
def test_levels_of_any_kind_name_their_stratum(levels):
    table = pd.DataFrame(
        {"k": (levels * 40)[:80], "x": np.linspace(0, 1, 80), "y": [0, 1, 1, 0] * 20}
    )
    if not isinstance(levels[0], str):
        table["k"] = np.array(table["k"])
    found = dplr("y ~ x", table, 0, 0.01, by="k", bounds=BOX, levels={"k": levels})
    own = table[table.k == levels[1]]
    alone = dplr("y ~ x", own, 0, 0.02, bounds=BOX)
    np.testing.assert_allclose(found[levels[1]].coef, alone.coef, rtol=1e-6)


def test_records_of_no_declared_level_are_in_no_stratum(table):
    source = read_data("y ~ age + by(sex)", table, None)
    spec = source.plan(declare_schema(**DECLARED))
    rows = [source.rows(spec.at_level(level), bar=False)[0] for level in DECLARED["levels"]["sex"]]
    counted = sum((each.y != 0).astype(int) for each in rows)
    np.testing.assert_array_equal(counted, table.sex.isin(["female", "male"]))
    assert all(each.n == len(table) for each in rows)
    for each in rows:
        assert not each.x[each.y == 0].any()


def test_a_subset_and_strata_hold_together(table):
    both = dplr("y ~ age + subset(age > 40)", table, 0, 1e-3, by="sex", **DECLARED)
    own = table[(table.sex == "male") & (table.age > 40)]
    alone = dplr("y ~ age", own, 0, 1e-3 * len(table) / len(own), bounds=DECLARED["bounds"])
    np.testing.assert_allclose(both["male"].coef, alone.coef, rtol=1e-6)


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"spend": "inference"},
        {"op": False},
        {"do_scale": "private"},
        {"spend": {"coefficients": 0.7, "roc": 0.3}, "do_scale": False},
    ],
    ids=str,
)
def test_a_ledger_is_charged_once_and_its_events_give_the_promise(price, asked, table):
    ledger = Ledger(epsilon=50, delta=1e-3)
    found = dplr("y ~ age", table, price, by="sex", ledger=ledger, **asked, **DECLARED)
    (entry,) = ledger.entries
    assert entry.guarantee == price == found.guarantee
    assert not entry.events or implied(entry.events, price)
    assert all(fit.release.entry == entry for fit in found.values())
    assert all(fit.guarantee == price for fit in found.values())


def test_noise_is_that_of_a_fit_to_all_records(table):
    """Of matrices for inference, which change in two strata, it is larger by the root of 2 or less.

    Matrix Laplace noise hides the sum of the changes as it hides that of one fit.
    """
    found = dplr("y ~ age", table, 1.0, by="sex", do_scale=False, spend="inference", **DECLARED)
    whole = dplr("y ~ age", table, 1.0, do_scale=False, spend="inference", **DECLARED)
    strata, alone = found["male"].release, whole.release
    assert strata.calibration.noise == alone.calibration.noise
    assert strata.calibration.shield.scale == pytest.approx(2 * alone.calibration.shield.scale)
    ratio = strata.moments.calibration.entry_sd / alone.moments.calibration.entry_sd
    assert 1 < ratio <= np.sqrt(2) * (1 + 1e-6)


def test_the_noise_of_strata_is_drawn_for_each(table):
    found = dplr("y ~ age", table.assign(sex="female"), 1.0, by="sex", **DECLARED)
    again = dplr("y ~ age", table.assign(sex="female"), 1.0, by="sex", **DECLARED)
    numbers = [*found.coef.to_numpy().ravel(), *again.coef.to_numpy().ravel()]
    assert len({*numbers}) == 8


def test_one_scale_serves_all_strata(table):
    found = dplr("y ~ age", table, 1.0, by="sex", do_scale="private", **DECLARED)
    assert found["male"].release.scale is found["female"].release.scale
    assert found["male"].scale.loc["age", "mean"] == pytest.approx(table.age.mean(), abs=5)


def test_predictions_are_by_the_fit_of_each_row(fits, table):
    new = table.head(50)
    found = fits.predict(new)
    for level, fit in fits.items():
        own = new.sex == level
        pd.testing.assert_series_equal(found[own], fit.predict(new[own]), check_names=False)
    assert found[~new.sex.isin(fits.levels)].isna().all()
    classes = fits.predict(new, "classes")
    assert {*classes.dropna()} <= {*fits["male"].predict(new, "classes")} | {
        *fits["female"].predict(new, "classes")
    }
    assert classes.isna().sum() == found.isna().sum() > 0
    intervals = fits.predict(new, interval=0.9)
    assert intervals.isna().all(axis=1).sum() == found.isna().sum()
    with pytest.raises(FormulaError, match="'sex'"):
        fits.predict(new[["age"]])


def test_the_page_states_the_price_of_all_strata_once(fits):
    page = str(fits)
    first, formula = page.splitlines()[:2]
    assert first == "Differentially private logistic regression, a fit for each sex"
    assert formula == fits["male"].formula.replace(', "male"', "")
    assert "a fit for each sex" in fits._repr_html_()
    assert fits.summary().guarantee == PureDP(1.0)
    assert "sex = female" in page
    assert "epsilon = 1 (pure)" in page
    assert "epsilon = 2" not in page
    assert "Strata of one call were paid for together" in page
    assert "<table" in fits._repr_html_()
    assert "epsilon = 1" in repr(fits)
    assert "sex = male" in str(fits["male"])
    assert compare(fits).guarantee == PureDP(1.0)


def test_strata_of_two_calls_cost_twice(table):
    one, other = (dplr("y ~ age", table, 1.0, by="sex", **DECLARED) for _ in range(2))
    assert compare([one["male"], other["female"]]).guarantee == PureDP(2.0)
    assert compare([one["male"], one["female"]]).guarantee == PureDP(1.0)


def test_no_page_shows_how_many_records_a_stratum_has(fits, table, tmp_path):
    fits.save(tmp_path / "strata.json")
    shown = [str(fits), fits.card(), repr(fits), fits._repr_html_(), str(fits["male"])]
    shown += [(tmp_path / "strata.json").read_text(), fits.glance().to_string()]
    for level in fits:
        size = str(int((table.sex == level).sum()))
        assert not any(size in text.replace(".", " ").split() for text in shown)


def test_the_number_of_all_records_is_not_said_to_be_that_of_a_stratum(fits, table):
    said, whole = f"n = {len(table)}", "of all strata"
    for text in (str(fits["male"]), fits.card()):
        words = " ".join(text.split())
        assert f"{len(table)} records {whole}" in words
        assert said not in words.replace(f"{said} {whole}", "").replace(
            f"{said} records {whole}", ""
        ).replace(f"The number of records, {said}, is public", "")
    assert fits.glance()["nobs"].isna().all()
    assert fits["male"].glance()["nobs"].isna().all()


def test_a_changed_file_is_refused(fits, table, tmp_path):
    path = tmp_path / "strata.json"
    fits.save(path)
    document = json.loads(path.read_text())
    other = dplr("y ~ age", table, 1.0, by="sex", spend="inference", lambda_=0.5, **DECLARED)
    other.save(path, overwrite=True)
    foreign = json.loads(path.read_text())
    released = document["released"]
    one, two = released["fits"]
    for changed in (
        {**document, "version": 1},
        *(
            {**document, "released": {**released, "fits": fits}}
            for fits in ([], [one], [one, one], [two, one], [one, foreign["released"]["fits"][1]])
        ),
        {**document, "call": foreign["call"]},
        {**document, "more": 1},
    ):
        path.write_text(json.dumps({**changed, "sha256": content_hash(changed)}))
        with pytest.raises(ReleaseFileError):
            load(path)
    path.write_text(json.dumps({**document, "notice": "covered by angels"}))
    with pytest.raises(ReleaseFileError, match="hash"):
        load(path)


def test_the_card_speaks_of_all_strata(fits):
    card = fits.card()
    assert "Privacy card of strata" in card
    assert card.count("What is not promised") == 2
    assert "covered by the same promise" in card
    assert fits.card("html").startswith("<!")


@pytest.mark.parametrize(
    ("formula", "given", "sentence"),
    [
        ("y ~ age", {"by": "sx"}, "by='sx'.*'sex'"),
        ("y ~ age", {"by": 3}, "by=3"),
        ("y ~ age + sex", {"by": "sex"}, "'sex' is the same in all records"),
        ("y ~ age:sex", {"by": "sex"}, "'sex' is the same"),
        ("y ~ age", {"by": "y"}, "the response"),
        ("y ~ age", {"by": "age"}, "'age'"),
        ("y ~ age + by(sex) + by(sex)", {}, "once"),
        ("y ~ age + by(sex + age)", {}, "takes a column"),
        ("y ~ age + by(sex, 'other')", {}, "not declared"),
        ("y ~ age:by(sex)", {}, "by"),
        ("y ~ 1", {"by": "text"}, "'text' takes declared levels"),
    ],
)
def test_what_has_no_strata_is_refused_in_a_sentence(formula, given, sentence, table):
    table = table.assign(id=range(len(table)), text="x")
    with pytest.raises((FormulaError, SchemaError), match=sentence) as caught:
        dplr(formula, table, 1.0, **given, **DECLARED)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"eps": 2.0, "spend": "inference"},
        {"eps": ZCDP(1.0, "person"), "do_scale": "private"},
        {"eps": 3.0, "delta": 1e-6, "spend": {"coefficients": 0.5, "roc": 0.5}},
        {"eps": 2.0, "op": False},
    ],
    ids=["inference", "zcdp", "roc", "output"],
)
def test_persons_may_have_records_in_several_strata(options, table, tmp_path):
    table = table.assign(id=np.arange(len(table)) // 3)
    ledger = privatelr.Ledger(9.0, 1e-5, neighbours="person")
    fits = dplr("y ~ age", table, by="sex", person="id", ledger=ledger, **options, **DECLARED)
    m = table.id.nunique()
    for level in ("female", "male"):
        one = fits[level]
        assert one.nobs == m
        assert one.release.calibration.problem.touched == 2
        assert f"one of m = {m} persons" in " ".join(str(one).split())
        one.save(tmp_path / "one.json", overwrite=True)
        assert privatelr.load(tmp_path / "one.json").guarantee == one.guarantee
    assert len(ledger.entries) == 1
    fits.save(tmp_path / "all.json")
    again = privatelr.load(tmp_path / "all.json")
    np.testing.assert_array_equal(again["male"].coef, fits["male"].coef)


def test_a_person_counts_once_in_all_strata_together(table):
    """Without noise: records of a person count by their number in all strata, as weights do."""
    table = table.assign(id=np.arange(len(table)) // 3)
    fits = dplr("y ~ age", table, 0, 1e-3, by="sex", person="id", **DECLARED)
    weights = table.assign(w=1 / table.groupby("id").id.transform("size"))
    m = table.id.nunique()
    male = weights.assign(w=weights.w * (weights.sex == "male"))
    bounds = {**DECLARED["bounds"], "w": (0.0, 1.0)}
    given = {**DECLARED, "bounds": bounds}
    lone = dplr("y ~ age", male, 0, 1e-3 * m / len(table), weights="w", **given)
    np.testing.assert_allclose(fits["male"].coef, lone.coef, rtol=1e-6)


def test_other_models_refuse_strata(table):
    with pytest.raises(FormulaError, match=r"by\(sex\) goes with dplr and dpsvm"):
        dplpsvm("y ~ age + by(sex)", table, ApproxDP(1.0, 1e-6), **DECLARED)


def test_a_single_stratum_can_be_asked_for(table):
    one = dplr("y ~ age + by(sex, 'male')", table, 0, 1e-6, **DECLARED)
    both = dplr("y ~ age", table, 0, 1e-6, by="sex", **DECLARED)
    np.testing.assert_allclose(one.coef, both["male"].coef)


def test_a_plan_has_the_noise_of_a_stratum_and_says_what_it_guesses(table):
    given = {"by": "sex", "spend": "inference", "do_scale": "private", **DECLARED}
    outlook = privatelr.plan("y ~ age", len(table), 1.0, **given)
    found = dplr("y ~ age", table, 1.0, **given)["female"]
    assert outlook.calibration.coefficients.noise == found.calibration.noise
    assert outlook.calibration.moments.noise == found.release.moments.calibration.noise
    page = str(outlook)
    assert "every stratum has as many records, 1/2 of n (sex)" in " ".join(page.split())
    assert "all 2 levels together" in " ".join(page.split())
    whole = privatelr.plan("y ~ age", len(table), 1.0, **{**given, "by": None})
    assert np.all(outlook.errors.sampling_sd > 1.2 * whole.errors.sampling_sd)


# -- ROC curves --------------------------------------------------------------------------------


def test_strata_have_the_curves_that_they_bought(table, fits):
    bought = dplr(
        "y ~ .", table, 4.0, by="sex", spend={"coefficients": 0.5, "roc": 0.5}, **DECLARED
    )
    assert list(bought.roc) == ["female", "male"]
    assert bought.roc["male"].auc == bought["male"].roc.auc
    assert {curve.guarantee for curve in bought.roc.values()} == {PureDP(4.0)}
    with pytest.raises(GuaranteeError, match="bought no ROC curve"):
        _ = fits.roc


def test_each_stratum_answers_for_itself(table, fits):
    with pytest.raises(ArgumentError, match=r"private_roc: .* as in fits\[level\]"):
        fits.private_roc(table, eps=1.0)
    answer = fits["female"].private_roc(table, eps=1.0)
    assert answer.nobs == len(table)
