"""Tests of whole terms: all coefficients of a factor or of an interaction together."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
import scipy
import statsmodels.formula.api as smf
from repeated_noise import drawn

from privatelr import ArgumentError, dplr
from privatelr.inference import Question, infer, quality
from privatelr.results.equations import read_hypotheses, vocabulary_of

RACES = ["white", "black", "other"]
PUBLIC = {"bounds": {"age": (15, 45)}, "levels": {"race": RACES, "smoke": ["no", "yes"]}}


@lru_cache
def births():
    rng = np.random.default_rng(5)
    n = 600
    age, race = rng.uniform(15, 45, n), rng.choice(RACES, n)
    smoke = rng.choice(["no", "yes"], n)
    link = 0.04 * (30 - age) + 0.6 * (race == "black") + 0.4 * (smoke == "yes")
    low = rng.random(n) < 1 / (1 + np.exp(-link))
    return pd.DataFrame({"low": low, "age": age, "race": race, "smoke": smoke})


@lru_cache
def fitted(formula, **options):
    given = {"eps": 9.0, "spend": "inference"} | PUBLIC | options
    return drawn(dplr, formula, births(), **given)


def estimates(fit, **asked):
    return fit.tidy(**asked).set_index("term")["estimate"]


FORMULA = "low ~ age * race + smoke"
RACE = ["race[T.black]", "race[T.other]"]
BOTH = ["age:race[T.black]", "age:race[T.other]"]


@pytest.mark.parametrize(
    ("term", "names"),
    [
        ("race", RACE),
        ("`race`", RACE),
        ("age : race", BOTH),
        ("age", ["age"]),
    ],
    ids=str,
)
def test_a_term_stands_for_its_coefficients(term, names):
    known = vocabulary_of(fitted(FORMULA).spec.columns)
    found = read_hypotheses(term, known)
    expected = read_hypotheses([f"{name} = 0" for name in names], known)
    np.testing.assert_array_equal(found.contrasts, expected.contrasts)
    np.testing.assert_array_equal(found.values, 0)
    assert [label.removesuffix(" = 0") for label in found.labels] == names


def test_a_term_is_tested():
    fit = fitted(FORMULA)
    found, expected = fit.wald_test("race"), fit.wald_test("race[T.black] = 0, race[T.other] = 0")
    assert (found, found.df) == (expected, 2)
    assert found.equations == ("race[T.black] = 0", "race[T.other] = 0")


def test_it_is_the_test_of_statsmodels_without_noise():
    fit = fitted(FORMULA, eps=0, lambda_=1e-9)
    ordered = births().assign(race=pd.Categorical(births()["race"], RACES)).astype({"low": int})
    theirs = smf.logit(FORMULA, ordered).fit(disp=0, cov_type="HC0", tol=1e-12, method="newton")
    for term in ("race", "age:race"):
        names = RACE if term == "race" else BOTH
        chi = theirs.wald_test(", ".join(names), use_f=False, scalar=True)
        found = fit.wald_test(term)
        assert found.statistic == pytest.approx(float(chi.statistic), rel=1e-5)
        assert found.p_value == pytest.approx(scipy.stats.chi2.sf(found.statistic, 2))


@pytest.mark.parametrize(
    "text",
    ["race - age", "2 * race", "race = age", "race = race", "age = race", "race = 0 = 0", "-race"],
)
def test_a_part_of_a_term_is_refused(text):
    with pytest.raises(ArgumentError) as error:
        fitted(FORMULA).wald_test(text)
    assert str(error.value) == (
        f"hypotheses={text!r}: 'race' is a term with the coefficients race[T.black], "
        "race[T.other]; write it by itself, or one of them."
    )


# -- every view answers the same question ------------------------------------------------------

ASKED = {
    "default": ({}, "unpenalised"),
    "penalised": ({"target": "penalised"}, "penalised"),
    "conservative": ({"mode": "conservative", "target": "penalised"}, "penalised"),
    "plug-in": ({"mode": "plug-in"}, "unpenalised"),
}


@pytest.mark.parametrize("which", ASKED)
def test_views_of_one_coefficient_agree(which):
    asked, target = ASKED[which]
    fit = fitted("low ~ age + race + smoke", eps=40.0)
    tidy = fit.tidy(conf_int=True, **asked).set_index("term")
    table = fit.anova(**asked)
    assert table.attrs["target"] == target
    question = Question(**{"target": target} | asked)
    sizes = dict(
        zip(tidy.index, infer(fit.release, fit.spec.user_rows(), question).sd, strict=True)
    )
    for term, name in (("age", "age"), ("smoke", "smoke[T.yes]")):
        row, size = tidy.loc[name], sizes[name]
        # a bound is the size of an error without a normal law, so z is not said
        stated = np.nan if which == "conservative" else size
        for column, value in (("std_error", stated), ("statistic", row["estimate"] / stated)):
            assert row[column] == pytest.approx(value, rel=1e-9, nan_ok=True)
        tests = [test(term, **asked) for test in (fit.wald_test, fit.deviance_test)]
        for found in tests:
            assert (found.df, found.target) == (1, target)
            assert found.p_value == pytest.approx(row["p_value"], rel=1e-9)
        assert tests[0].statistic == pytest.approx((row["estimate"] / size) ** 2, rel=1e-6)
        assert table.loc[term, "p_value"] == pytest.approx(row["p_value"], rel=1e-9)
        alone = fit.contrasts(term, **asked).iloc[0]
        for column in ("estimate", "std_error", "p_value", "conf_low", "conf_high"):
            assert alone[column] == pytest.approx(row[column], rel=1e-9, nan_ok=True)
        assert (row["p_value"] <= 0.05) == (row["conf_low"] > 0 or row["conf_high"] < 0)
    if not asked:
        np.testing.assert_array_equal(fit.pvalues, tidy["p_value"])
        np.testing.assert_array_equal(fit.bse, tidy["std_error"])


@pytest.mark.parametrize("which", ASKED)
def test_odds_ratios_and_intervals_together_are_of_the_same_target(which):
    asked, _ = ASKED[which]
    fit = fitted("low ~ age + race + smoke", eps=40.0)
    odds = fit.tidy(conf_int=True, exponentiate=True, **asked)
    ends = odds[["conf_low", "conf_high"]].to_numpy()
    np.testing.assert_allclose(ends, np.exp(fit.conf_int(**asked)), rtol=1e-12)
    np.testing.assert_allclose(odds["estimate"], np.exp(estimates(fit, **asked)), rtol=1e-12)
    single, together = (fit.conf_int(simultaneous=both, **asked) for both in (False, True))
    assert (together[0] < single[0]).all()
    assert (together[1] > single[1]).all()


@pytest.mark.parametrize("which", ASKED)
def test_tests_of_a_term_are_those_of_its_equations(which):
    asked, target = ASKED[which]
    fit = fitted("low ~ age + race + smoke", eps=40.0)
    deviance = fit.deviance_test("race", **asked)
    assert fit.anova(**asked).loc["race", "p_value"] == deviance.p_value
    for found in (deviance, fit.wald_test("race", **asked)):
        assert (found.df, found.target) == (2, target)
        assert str(found).endswith(f"{target} coefficients)")


def test_the_bootstrap_is_about_what_the_tables_are():
    """Its default target is theirs, and there the penalty is taken off in a way of its own."""
    fit = fitted("low ~ age + race + smoke", eps=40.0, lambda_=0.01)
    simulated = {"method": "bootstrap", "covariates": births()}
    table = fit.contrasts("age, smoke", **simulated)
    same = fit.contrasts("age, smoke", target="unpenalised", **simulated)
    pd.testing.assert_frame_equal(table, same)
    shrunk, bare = (
        fit.contrasts("age, smoke", target=target) for target in ("penalised", "unpenalised")
    )
    off, corrected = (
        np.linalg.norm((one["estimate"] - bare["estimate"]) / bare["std_error"])
        for one in (table, shrunk)
    )
    assert off < 0.1 * corrected


@pytest.mark.parametrize("test", ["deviance", "wald"])
@pytest.mark.parametrize("eps", [0.5, 2.0, 40.0])
def test_the_table_shows_what_its_statistics_are_to_be_compared_with(test, eps):
    """A large statistic may stand beside a large p-value where the noise is large."""
    fit = fitted("low ~ age * race + smoke", eps=eps)
    table = fit.anova(test=test, target=quality(fit.release).target)  # tests that are asked for
    assert list(table) == ["df", "statistic", "critical_5%", "p_value"]
    beyond = table["statistic"] > table["critical_5%"]
    np.testing.assert_array_equal(beyond, table["p_value"] <= 0.05)
    if (test, eps) == ("deviance", 0.5):
        assert (table["critical_5%"] > 2 * scipy.stats.chi2.ppf(0.95, table["df"])).all()
    assert "critical_5%" in str(table)
    assert "critical_5%" in table.to_html()


def test_a_table_of_wald_tests_has_those_of_its_terms():
    fit = fitted("low ~ age + race + smoke", eps=4.0)
    table = fit.anova(test="wald")
    for term in ("age", "race", "smoke"):
        found = fit.wald_test(term)
        assert table.loc[term, "p_value"] == pytest.approx(found.p_value, rel=1e-9)
        assert table.loc[term, "statistic"] == pytest.approx(found.statistic, rel=1e-9)
        assert f"(critical value at 5%: {found.critical:.4g}), p-value" in str(found)
    with pytest.raises(ArgumentError, match="test='chisq': test takes 'deviance', 'wald'"):
        fit.anova(test="chisq")
