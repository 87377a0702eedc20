"""Tests of whole terms: all coefficients of a factor or of an interaction together."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
import scipy
import statsmodels.formula.api as smf

from privatelr import ArgumentError, dplr
from privatelr.results.equations import Vocabulary, read_hypotheses, vocabulary_of
from privatelr.results.fit_tables import WaldTest

RACES = ["white", "black", "other"]
PUBLIC = {"bounds": {"age": (15, 45)}, "levels": {"race": RACES, "smoke": ["no", "yes"]}}


@lru_cache
def births():
    rng = np.random.default_rng(5)
    n = 600
    age, race = rng.uniform(15, 45, n), rng.choice(RACES, n)
    smoke = rng.choice(["no", "yes"], n)
    link = 0.04 * (30 - age) + 0.6 * (race == "black") + 0.4 * (smoke == "yes")
    low = (rng.random(n) < 1 / (1 + np.exp(-link))).astype(int)
    return pd.DataFrame({"low": low, "age": age, "race": race, "smoke": smoke})


@lru_cache
def fitted(formula, **options):
    return dplr(formula, births(), spend="inference", **PUBLIC, **({"eps": 9.0} | options))


FORMULA = "low ~ age * race + smoke"
RACE = ["race[T.black]", "race[T.other]"]
BOTH = ["age:race[T.black]", "age:race[T.other]"]


@pytest.mark.parametrize(
    ("term", "names"),
    [
        ("race", RACE),
        ("`race`", RACE),
        (" race ", RACE),
        ("race = 0", RACE),
        (["race"], RACE),
        ("age:race", BOTH),
        ("race:age", BOTH),
        ("age : race", BOTH),
        ("smoke", ["smoke[T.yes]"]),
        ("age", ["age"]),
        ("race, age", [*RACE, "age"]),
        ("age = 0, age:race = 0", ["age", *BOTH]),
        ({"race": 0}, RACE),
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


def test_each_coefficient_has_its_row_in_contrasts():
    fit = fitted(FORMULA)
    assert list(fit.contrasts("race").index) == RACE
    np.testing.assert_allclose(fit.contrasts("race")["estimate"], fit.coef[RACE])
    assert list(fit.contrasts("race = 1").index) == [f"{name} = 1" for name in RACE]
    assert (fit.contrasts({"race": 1})["null_value"] == 1).all()


def test_it_is_the_test_of_statsmodels_without_noise():
    fit = fitted(FORMULA, eps=0, lambda_=1e-9)
    ordered = births().assign(race=pd.Categorical(births()["race"], RACES))
    theirs = smf.logit(FORMULA, ordered).fit(disp=0, cov_type="HC0", tol=1e-12, method="newton")
    for term in ("race", "age:race"):
        names = RACE if term == "race" else BOTH
        chi = theirs.wald_test(", ".join(names), use_f=False, scalar=True)
        found = fit.wald_test(term)
        assert found.statistic == pytest.approx(float(chi.statistic), rel=1e-5)
        assert found.p_value == pytest.approx(scipy.stats.chi2.sf(found.statistic, 2))


def test_terms_in_r_spelling():
    fit = fitted('low ~ C(race, Treatment("other")) + I(age > 30)')
    assert fit.wald_test('C(race, Treatment("other"))').df == 2
    assert fit.wald_test('C(race,Treatment("other")), I(age>30)').df == 3
    full = fitted("low ~ 0 + race")
    assert full.wald_test("race").df == 3


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


def test_the_error_names_the_terms():
    with pytest.raises(ArgumentError) as error:
        fitted(FORMULA).wald_test("sex")
    assert str(error.value).endswith("age:race[T.other], and the terms race, smoke, age:race.")
    with pytest.raises(ArgumentError, match=r"which has \(Intercept\), age\."):
        fitted("low ~ age").wald_test("sex")


def test_many_coefficients_are_counted():
    names = tuple(f"g[{i}]" for i in range(14))
    found = read_hypotheses("g", Vocabulary(names, {"g": tuple(range(14))}))
    assert found.labels == names
    equations = tuple(f"{name} = 0" for name in names)
    said = str(WaldTest(equations, 9.0, 14, 0.8, "posterior", "penalised"))
    assert "g[9] = 0 and 4 more: statistic 9 on 14 degrees" in said


def test_a_coefficient_comes_before_a_term_of_the_same_name():
    known = vocabulary_of(fitted("low ~ age + race").spec.columns)
    assert set(known.terms) == {"race"}
    assert "age" in known.names
