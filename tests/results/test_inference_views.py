"""What a user calls on a fit that bought inference, in the names of R and of statsmodels."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from frames_for_laws import SCHEMA, fit_clinic
from repeated_noise import drawn, trial

from privatelr import (
    ZCDP,
    ArgumentError,
    FormulaError,
    GuaranteeError,
    average_marginal_effects,
    dplr,
    dpsvm,
    load_dataset,
    load_schema,
)
from privatelr.results.equations import Vocabulary, read_hypotheses

PARTS = ["sampling_sd", "privacy_sd", "unknown_sd"]
NAMES = ["(Intercept)", "age", "dose", "smoker[T.yes]"]
BOUGHT = {
    "pure": {"eps": 2.0},
    "zCDP": {"eps": ZCDP(0.5)},
    "approximate": {"eps": 2.0, "delta": 1e-6},
    "output": {"eps": 4.0, "op": False},
    "svm": {"eps": 4.0, "model": dpsvm, "loss": "huber"},
    "softplus": {"eps": 4.0, "model": dpsvm},
    "noisy": {"eps": 0.05},
    "fragile svm": {"eps": 1.0, "model": dpsvm, "spend": {"coefficients": 0.98, "inference": 0.02}},
    "shrunk": {"eps": 4.0, "lambda_": 1.0},
    "scaled": {"eps": 4.0, "do_scale": "private", "row_norm": 1.5},
    "plain": {"eps": 0, "lambda_": 1e-4},
}
SVMS = ("svm", "softplus", "fragile svm")
BY_NAME = {name: {"target": "penalised"} for name in SVMS}
"""What has to be asked for by its name: tests of penalised coefficients."""
EVERY_FIT = pytest.mark.parametrize("name", [name for name in BOUGHT if name != "shrunk"])


@lru_cache(maxsize=1)
def people():
    return trial()


@lru_cache
def bought(name):
    options = {"spend": "inference", "do_scale": False} | BOUGHT[name]
    return drawn(fit_clinic, people(), **options)


@lru_cache
def unbought():
    return drawn(fit_clinic, people(), do_scale=False)


# -- against statsmodels ---------------------------------------------------------------------


@lru_cache
def votes():
    """A public table, without noise or penalty, and the same by statsmodels."""
    table, schema = load_dataset("anes96"), load_schema("anes96")
    table = table.assign(y=(table["vote"] == table["vote"].unique()[0]).astype(int))
    public = {name: schema["bounds"][name] for name in ("age", "educ", "TVnews")}
    fit = dplr(
        "y ~ age + educ + TVnews",
        table[["y", "age", "educ", "TVnews"]],
        eps=0,
        lambda_=1e-9,
        spend="inference",
        bounds=public,
        levels={"y": [0, 1]},
    )
    formula = "y ~ age + educ + TVnews"
    return fit, smf.logit(formula, table).fit(disp=0, cov_type="HC0", tol=1e-12, method="newton")


def test_without_noise_it_is_the_sandwich_of_statsmodels():
    ours, theirs = votes()
    for name in ("params", "bse", "tvalues"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    np.testing.assert_allclose(ours.pvalues, theirs.pvalues, rtol=1e-4)
    np.testing.assert_allclose(ours.cov_params(), theirs.cov_params(), rtol=2e-6)
    for alpha in (0.05, 0.2):
        np.testing.assert_allclose(ours.conf_int(alpha), theirs.conf_int(alpha), rtol=1e-5)
    glm = smf.glm(
        "y ~ age + educ + TVnews", theirs.model.data.frame, family=sm.families.Binomial()
    ).fit(cov_type="HC0")
    np.testing.assert_allclose(ours.bse, glm.bse, rtol=1e-5)


def test_tests_of_statsmodels():
    ours, theirs = votes()
    single = theirs.t_test("age - educ = 0.01")
    row = ours.t_test("age - educ = 0.01").iloc[0]
    np.testing.assert_allclose(row["statistic"], np.squeeze(single.tvalue), rtol=1e-5)
    np.testing.assert_allclose(row["p_value"], np.squeeze(single.pvalue), rtol=1e-4)
    joint = theirs.wald_test("age = 0, TVnews = 0", use_f=False, scalar=True)
    found = ours.wald_test("age = 0, TVnews = 0")
    assert found.df == 2
    assert found.statistic == pytest.approx(float(joint.statistic), rel=1e-5)
    assert found.p_value == pytest.approx(float(joint.pvalue), abs=0.01)


def test_marginal_effects_of_statsmodels():
    ours, theirs = votes()
    frame = theirs.model.data.frame
    table = average_marginal_effects(ours, frame).table
    margins = theirs.get_margeff()
    np.testing.assert_allclose(table["estimate"], margins.margeff, rtol=1e-5)
    np.testing.assert_allclose(table["std_error"], margins.margeff_se, rtol=1e-3)
    paid = average_marginal_effects(ours)
    assert paid.over == "training data"
    np.testing.assert_allclose(paid.table["estimate"], margins.margeff, rtol=1e-5)
    assert (paid.table["std_error"] >= margins.margeff_se).all()


# -- layouts ---------------------------------------------------------------------------------


@EVERY_FIT
def test_layouts(name):
    fit = bought(name)
    for series in (fit.bse, fit.tvalues, fit.pvalues, fit.privacy_sd):
        assert list(series.index) == NAMES
    assert [s.name for s in (fit.bse, fit.tvalues, fit.pvalues)] == [
        "bse",
        "tvalues",
        "pvalues",
    ]
    statsmodels, r = fit.conf_int(), fit.confint()
    assert list(statsmodels.columns) == [0, 1]
    assert list(r.columns) == ["2.5 %", "97.5 %"]
    assert list(statsmodels.index) == list(r.index) == NAMES
    np.testing.assert_array_equal(statsmodels, r)
    assert list(fit.confint(0.9).columns) == ["5 %", "95 %"]
    assert list(fit.confint(0.99).columns) == ["0.5 %", "99.5 %"]
    narrow, wide = (fit.confint(level) for level in (0.8, 0.99))
    assert (narrow.iloc[:, 0] > wide.iloc[:, 0]).all()
    # they are about the estimates of tidy, from which the bias of the penalty may be taken off
    estimates = fit.tidy().set_index("term")["estimate"]
    assert (wide.iloc[:, 0] < estimates).all()
    if name in SVMS:
        assert fit.tvalues.isna().all()
        assert fit.pvalues.isna().all()
    else:
        np.testing.assert_allclose(fit.tvalues, estimates / fit.bse)
    assert np.array_equal(estimates, fit.coef) == (fit.glance().loc[0, "target"] == "penalised")
    covariance = fit.vcov()
    assert list(covariance.index) == list(covariance.columns) == NAMES
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), fit.bse, rtol=1e-9)
    pd.testing.assert_frame_equal(covariance, fit.cov_params())


@EVERY_FIT
def test_tidy(name):
    fit = bought(name)
    tidy = fit.tidy()
    assert list(tidy.columns) == [
        "term",
        "estimate",
        "std_error",
        *PARTS,
        "statistic",
        "p_value",
    ]
    np.testing.assert_array_equal(tidy["privacy_sd"], fit.privacy_sd)
    np.testing.assert_array_equal(tidy["p_value"], fit.pvalues)
    wide = fit.tidy(conf_int=True, conf_level=0.9)
    assert not (wide["std_error"] > 1.01 * fit.bse.to_numpy()).any()
    assert list(wide.columns) == [*tidy.columns, "conf_low", "conf_high"]
    np.testing.assert_array_equal(wide[["conf_low", "conf_high"]], fit.confint(0.9))
    if name in SVMS:
        with pytest.raises(ArgumentError, match="not logarithms of odds"):
            fit.tidy(conf_int=True, exponentiate=True)
        return
    odds = fit.tidy(conf_int=True, conf_level=0.9, exponentiate=True)
    for column in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_allclose(odds[column], np.exp(wide[column]))
    for error in ("std_error", *PARTS):
        np.testing.assert_array_equal(odds[f"{error}_log"], wide[error])


@pytest.mark.parametrize("name", BOUGHT)
@pytest.mark.parametrize("mode", [None, "posterior", "conservative", "plug-in"])
def test_the_parts_add_up_to_the_error_that_vcov_has(name, mode):
    """The sum of squares is worked out a second time, without parts, by `vcov`."""
    fit, about = bought(name), "penalised" if mode == "conservative" else None
    if name == "shrunk":
        about = "penalised"
    table = fit.tidy(mode=mode, target=about)
    parts = table[PARTS].to_numpy()
    assert not (parts < 0).any()
    variances = np.diag(fit.vcov(mode=mode, target=about))
    np.testing.assert_allclose((parts**2).sum(axis=1), variances, rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(variances), table["std_error"], rtol=1e-9)
    asked = mode or fit.glance().loc[0, "inference"]
    assert (parts[:, 1] > 0).all() == (name != "plain")
    unknown = parts[np.isfinite(parts[:, 2]), 2]
    assert not (unknown > 0).any() or (name != "plain" and asked != "plug-in")


def test_shrunk_estimates_are_not_tested_unless_that_is_asked():
    """A penalised coefficient may differ from 0 where the variable has no effect."""
    fit = bought("shrunk")
    assert list(fit.glance().loc[0, ["inference", "target"]]) == ["posterior", "penalised"]
    found = fit.contrasts("age, dose = 1")
    assert list(found["null_value"]) == [0, 1]
    for together in (fit.wald_test("age, dose"), fit.deviance_test("age, dose")):
        assert "no p-value of shrunk estimates unless target='penalised' asks" in str(together)
    assert fit.anova()["p_value"].isna().all()
    assert fit.anova(target="penalised")["p_value"].notna().all()
    named = fit.tidy(target="penalised")
    assert named["p_value"].notna().all()
    np.testing.assert_array_equal(named["estimate"], fit.tidy()["estimate"])
    assert fit.contrasts("age", target="penalised").notna().all(axis=None)
    assert fit.wald_test("age, dose", target="penalised").p_value < 1
    with pytest.raises(GuaranteeError, match="fit with a smaller lambda_"):
        fit.tidy(target="unpenalised")


def test_a_machine_tests_nothing_unless_that_is_asked():
    """Its coefficients are penalised, whatever the penalty, and so about more than an effect."""
    fit = bought("softplus")
    assert "so that there are no tests of 0, unless target='penalised' asks" in said_by(fit)
    assert "Pr(>|z|)" in said_by(fit, target="penalised")
    assert "Pr(>|z|)" not in said_by(fit)
    assert fit.tidy(target="penalised")["p_value"].notna().all()


def said_by(fit, **options):
    return " ".join(fit.summary(**options).as_text().split())


ASKED_WITHOUT_WORDS = {
    "conf_int": lambda fit, **asked: fit.conf_int(**asked),
    "confint": lambda fit, **asked: fit.confint(**asked),
    "vcov": lambda fit, **asked: fit.vcov(**asked),
    "tidy": lambda fit, **asked: fit.tidy(**asked),
    "contrasts": lambda fit, **asked: fit.contrasts("age", **asked),
    "anova": lambda fit, **asked: fit.anova(**asked),
    "predict": lambda fit, **asked: fit.predict(people()[:5], interval=0.9, **asked),
}


@pytest.mark.parametrize("ask", ASKED_WITHOUT_WORDS.values(), ids=ASKED_WITHOUT_WORDS)
def test_what_knows_another_target_alone_has_to_be_asked_for_it(ask):
    fit = bought("pure")
    with pytest.raises(GuaranteeError, match="mode='conservative': it knows the penalised"):
        ask(fit, mode="conservative")
    named = ask(fit, mode="conservative", target="penalised")
    if "p_value" in named:
        assert named["p_value"].notna().all()
    ask(bought("softplus"), mode="conservative")  # its target is the same
    assert ask(fit).attrs.get("target", "unpenalised") == "unpenalised"


def test_the_published_method_has_a_target_of_its_own_and_says_so():
    with pytest.raises(GuaranteeError, match="method='wkl': it knows the penalised"):
        bought("pure").conf_int(method="wkl")
    found = bought("pure").conf_int(method="wkl", target="penalised")
    assert found.attrs == {"mode": "plug-in", "target": "penalised"}
    assert bought("pure").conf_int().attrs == {"mode": "posterior", "target": "unpenalised"}


def rejected(lambda_, **asked):
    """The share of tests at 5 % of a null that goes with an effect, in fits without noise."""
    rng, found = np.random.default_rng(3), []
    for _ in range(80):
        cause = rng.uniform(-1, 1, 2000)
        null = np.clip(0.8 * cause + 0.2 * rng.uniform(-1, 1, 2000), -1, 1)
        y = (rng.random(2000) < 1 / (1 + np.exp(-2 * cause))).astype(int)
        frame, box = pd.DataFrame({"y": y, "cause": cause, "null": null}), (-1, 1)
        public = {"bounds": {"cause": box, "null": box, "y": (0, 1)}, "lambda_": lambda_}
        fit = dplr("y ~ .", frame, eps=0, spend="inference", **public)
        found.append(fit.tidy(**asked).set_index("term").loc["null", "p_value"])
    return np.mean(np.array(found) < 0.05), np.isnan(found).mean()


def test_without_noise_a_large_penalty_has_no_tests_and_a_small_one_is_taken_off():
    """What `glm` would say of the null is that it has no effect."""
    assert rejected(0.05) == (0.0, 1.0)
    assert rejected(0.05, target="penalised")[0] > 0.5
    share, missing = rejected(1e-4)
    assert missing == 0
    assert share <= 0.125  # ten of eighty: 1 in 500 where it is .05


def test_the_noise_is_apart():
    assert (bought("plain").privacy_sd == 0).all()
    assert (bought("pure").privacy_sd > 0).all()
    # output noise on the released coefficients is known exactly, whatever is released beside it
    output = bought("output")
    noise = output.tidy(target="penalised")["privacy_sd"]
    np.testing.assert_allclose(noise, output.privacy_sd_limit, rtol=1e-9)
    # and the limit is one
    for name in ("pure", "zCDP", "approximate", *SVMS, "scaled"):
        noise = bought(name).tidy(target="penalised")["privacy_sd"].to_numpy()
        assert (noise <= bought(name).privacy_sd_limit).all()
    np.testing.assert_array_equal(unbought().privacy_sd, unbought().privacy_sd_limit)


def test_choices():
    fit = bought("pure")
    named = {"mode": "conservative", "target": "penalised"}
    default, other = fit.conf_int(), fit.conf_int(**named)
    assert (other[1] - other[0] > default[1] - default[0]).all()
    together = fit.conf_int(simultaneous=True)
    assert (together[1] - together[0] > default[1] - default[0]).all()
    bare = fit.tidy(target="unpenalised")
    assert np.linalg.norm(bare["estimate"]) > np.linalg.norm(fit.coef)
    assert fit.conf_int(method="wkl", target="penalised").shape == (4, 2)
    covariance = fit.vcov(target="unpenalised")
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), bare["std_error"], rtol=1e-6)
    worst = fit.tidy(**named)
    covariance = fit.vcov(**named)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), worst["std_error"], rtol=1e-9)


@pytest.mark.parametrize(
    "ask",
    [
        lambda fit: fit.bse,
        lambda fit: fit.tvalues,
        lambda fit: fit.pvalues,
        lambda fit: fit.conf_int(),
        lambda fit: fit.confint(),
        lambda fit: fit.vcov(),
        lambda fit: fit.tidy(conf_int=True),
        lambda fit: fit.tidy(mode="posterior"),
        lambda fit: fit.wald_test("age = 0"),
        lambda fit: fit.contrasts("age"),
        lambda fit: fit.predict(people(), interval=0.95),
        lambda fit: fit.summary(mode="posterior"),
        average_marginal_effects,
    ],
)
def test_what_was_not_bought_is_refused_with_the_remedy(ask):
    with pytest.raises(GuaranteeError, match=r"were not requested .* fit with spend='inference'"):
        ask(unbought())


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda fit: fit.confint(95), "level=95: level takes a number from 0.5"),
        (lambda fit: fit.tidy(conf_level=95), "conf_level=95: conf_level takes a number from 0.5"),
        (lambda fit: fit.conf_int(mode="bayes"), "mode='bayes': mode takes 'posterior', 'cons"),
        (lambda fit: fit.conf_int(simultaneous="yes"), "simultaneous='yes': simultaneous takes"),
        (lambda fit: fit.conf_int(covariates=[1]), "method='sandwich' looks at no covariates"),
        (lambda fit: fit.conf_int(method="bootstrap", mode="posterior"), "takes mode=None"),
        (lambda fit: fit.conf_int(method="bootstrap", simultaneous=True), "each interval by its"),
        (lambda fit: fit.predict(trial(5), mode="posterior"), "mode: predict takes it with inter"),
        (lambda fit: fit.predict(trial(5), interval=0.9, target="w"), "target='w': target takes"),
        (lambda fit: fit.predict(trial(5), interval=95), "interval=95: interval takes None, or"),
        (lambda fit: fit.predict(trial(5), "classes", interval=0.9), "a class has no interval"),
        (lambda fit: fit.summary(mode="bayes"), "mode='bayes'"),
    ],
)
def test_bad_choices(ask, words):
    with pytest.raises(ArgumentError) as error:
        ask(bought("pure"))
    assert words in str(error.value)


# -- hypotheses ------------------------------------------------------------------------------

COLUMNS = [
    "(Intercept)",
    "age",
    "dose",
    "Sepal.Length",
    "smoker[T.yes]",
    "log(age + 1)",
    "age:dose",
    "mean radius",
    "age:smoker[T.yes]",
]
KNOWN = Vocabulary(tuple(COLUMNS))


def test_chains_are_several_equations():
    found = read_hypotheses("age = dose = 1", KNOWN)
    assert found.labels == ("age = dose", "dose = 1")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("agee = 0", "'agee' is not a coefficient of this fit, which has (Intercept), age, dose"),
        ("`age", "'`' cannot be read"),
        ("2 / age", "cannot be read"),
        ("age = 0 dose = 0", "'0 dose' cannot be read"),
        ("((((age", "cannot be read"),
        ("", "hypotheses takes equations such as 'age = 0, dose = 0'"),
        (None, "hypotheses takes equations such as 'age = 0, dose = 0'"),
        ("3 = 3", "'3 = 3' is about no coefficient"),
        ("age - age", "'age - age' is about no coefficient"),
        (np.eye(3), "a matrix of shape (3, 3) takes 9 columns, one for each of (Intercept), age"),
        ([[np.nan] * 9], "the matrix takes finite numbers"),
        ([[1.0], [2.0, 3.0]], "the matrix takes finite numbers"),
        ({"age": 0}, "hypotheses takes equations such as 'age = 0, dose = 0'"),
    ],
    ids=str,
)
def test_hypotheses_that_cannot_be_read(asked, words):
    with pytest.raises(ArgumentError) as error:
        read_hypotheses(asked, KNOWN)
    assert words in str(error.value)
    assert "`mean radius`" in str(error.value) or "is not a coefficient" not in words


@EVERY_FIT
def test_contrasts(name):
    fit, named = bought(name), BY_NAME.get(name, {})
    found = fit.contrasts("age, 2*age - dose = 1", **named)
    assert list(found.columns) == [
        "estimate",
        "null_value",
        "std_error",
        *PARTS,
        "statistic",
        "p_value",
        "conf_low",
        "conf_high",
    ]
    assert list(found.index) == ["age", "2*age - dose = 1"]
    row = fit.tidy(conf_int=True, **named).set_index("term").loc["age"]
    for column in ("estimate", "std_error", "p_value", "conf_low", "conf_high"):
        assert found.loc["age", column] == pytest.approx(row[column], rel=1e-9, nan_ok=True)
    gap, coef = found.iloc[1], fit.tidy().set_index("term")["estimate"]
    assert gap["estimate"] == pytest.approx(2 * coef["age"] - coef["dose"])
    z = (gap["estimate"] - 1) / gap["std_error"]
    assert gap["statistic"] == pytest.approx(z, nan_ok=True)
    # the interval holds the values that the test does not reject
    low, high = found[["conf_low", "conf_high"]].iloc[1]
    edges = fit.contrasts(f"2*age - dose = {low!r}, 2*age - dose = {high!r}", **named)["p_value"]
    np.testing.assert_allclose(edges, 0.05, atol=2e-3)


@EVERY_FIT
def test_wald_test(name):
    fit, named = bought(name), BY_NAME.get(name, {})
    one, row = fit.wald_test("age = 0", **named), fit.tidy(**named).set_index("term").loc["age"]
    assert one.p_value == one.pvalue == pytest.approx(row["p_value"])
    if np.isfinite(row["statistic"]):
        assert one.statistic == pytest.approx(row["statistic"] ** 2, rel=1e-6)
    two = fit.wald_test("age = 0, dose = 0", **named)
    assert (two.df, 0 <= two.p_value <= 1) == (2, True)
    assert str(two) == repr(two)
    assert str(two).startswith("Wald test of age = 0, dose = 0: statistic ")
    # the p-value of the conservative mode is not by the statistic
    beyond = "" if two.mode == "conservative" else " (critical value at 5%: "
    assert f" on 2 degrees of freedom{beyond or ', p-value '}" in str(two)
    assert str(fit.wald_test("age")).startswith("Wald test of age = 0: ")
    with pytest.raises(ArgumentError, match="follows from the others"):
        fit.wald_test("age = 0, 2*age = 1")


# -- predictions -----------------------------------------------------------------------------


@EVERY_FIT
@pytest.mark.parametrize("mode", [None, "posterior", "conservative"])
@pytest.mark.parametrize("target", [None, "penalised"])
def test_prediction_intervals(name, mode, target):
    fit, frame = bought(name), trial(12, seed=4).set_index(pd.Index(list("abcdefghijkl")))
    frame.loc["b", "age"] = np.nan
    frame.loc["c", "smoker"] = "sometimes"
    asked = {"mode": mode, "target": target}
    if mode == "conservative" and target is None and name not in SVMS:
        with pytest.raises(GuaranteeError, match="penalised coefficients alone"):
            fit.predict(frame, interval=0.9, **asked)
        return
    found = fit.predict(frame, interval=0.9, **asked)
    assert list(found.index) == list(frame.index)
    linear = "margin" if name in SVMS else "link"
    ends = ["", "_lower", "_upper"]
    columns = [f"{linear}{end}" for end in ends] + ["std_error"]
    if name not in SVMS:
        columns = [f"probability{end}" for end in ends] + columns
        for end in ends:
            expected = 1 / (1 + np.exp(-found[f"link{end}"]))
            np.testing.assert_allclose(found[f"probability{end}"], expected)
    assert list(found.columns) == columns
    if found.attrs["target"] == "penalised":  # the middle is what was released
        released = fit.predict(frame, type="margins" if name in SVMS else "link")
        np.testing.assert_array_equal(found[linear], released)
    np.testing.assert_array_equal(found.isna().all(axis=1), [False, True, True] + 9 * [False])
    np.testing.assert_array_equal(found.isna().any(axis=1), found.isna().all(axis=1))
    shown = found[found[linear].notna()]
    middle = (shown[f"{linear}_lower"] + shown[f"{linear}_upper"]) / 2
    np.testing.assert_allclose(shown[linear], middle, rtol=1e-9)
    # the rows as contrasts, one by one
    usable = frame[found[linear].notna()]
    smokes = usable["smoker"] == "yes"
    rows = np.column_stack([np.ones(len(usable)), usable["age"], usable["dose"], smokes])
    alone = fit.contrasts(rows, level=0.9, **asked)
    np.testing.assert_allclose(shown[linear], alone["estimate"], rtol=1e-9)
    width, needed = (
        (shown[f"{linear}_upper"] - shown[f"{linear}_lower"]).to_numpy(),
        (alone["conf_high"] - alone["conf_low"]).to_numpy(),
    )
    if fit.glance().loc[0, "noise_to_signal"] < 1:
        assert (width <= 1.35 * needed).all()
    elif found.attrs["target"] == "penalised":
        assert (width <= 1.6 * needed).all()
    if found.attrs["mode"] != "conservative":
        assert (width >= 0.98 * needed).all()
        # one bound for all rows has what nearly singular matrices say, which a row alone leaves out
        assert not (shown["std_error"].to_numpy() < alone["std_error"].to_numpy() * 0.999999).any()
    if found.attrs["mode"] != "conservative" and found.attrs["target"] == "penalised":
        given = alone["std_error"].notna().to_numpy()
        np.testing.assert_allclose(shown["std_error"][given], alone["std_error"][given], rtol=1e-6)


# -- marginal effects ------------------------------------------------------------------------


def probabilities(fit, frame, **asked):
    """What the fit says of the rows of a frame, by the coefficients of the target."""
    return fit.predict(frame, interval=0.5, **asked)["probability"]


def estimates(fit, **asked):
    return fit.tidy(**asked).set_index("term")["estimate"]


@pytest.mark.parametrize("asked", [{}, {"target": "penalised"}], ids=str)
def test_effects_over_a_reference(asked):
    fit, reference = bought("pure"), trial(200, seed=8)
    found = average_marginal_effects(fit, reference, **asked)
    assert found.over == "reference"
    assert found.target == asked.get("target", "unpenalised")
    assert list(found.table.index) == ["age", "dose", "smoker: yes against no"]
    p = probabilities(fit, reference, **asked)
    slope = (p * (1 - p)).mean() * estimates(fit, **asked)["age"]
    assert found.table.loc["age", "estimate"] == pytest.approx(slope, rel=1e-5)
    changed = [
        probabilities(fit, reference.assign(smoker=level), **asked).mean()
        for level in ("yes", "no")
    ]
    effect = found.table.loc["smoker: yes against no", "estimate"]
    assert effect == pytest.approx(changed[0] - changed[1], rel=1e-9)
    low, high = found.table["conf_low"], found.table["conf_high"]
    assert ((low < found.table["estimate"]) & (found.table["estimate"] < high)).all()
    assert "which are taken to be public" in str(found)
    assert str(found).endswith(f"posterior mode, {found.target} coefficients.")
    assert "<table" in found._repr_html_()
    one = average_marginal_effects(fit, reference, variables="age", level=0.8, **asked)
    assert list(one.table.index) == ["age"]
    assert one.table.loc["age", "conf_low"] > low["age"]


def test_an_effect_on_the_edge_of_its_interval_has_the_p_value_of_its_level():
    """The sides of an interval differ where the bias of the penalty has a skew law."""
    fit, reference = bought("noisy"), trial(50, seed=8)
    for level in (0.6, 0.9):
        table = average_marginal_effects(fit, reference, level=level).table
        row = table.loc["age"]
        holds = row["conf_low"] <= 0 <= row["conf_high"]
        assert holds == (row["p_value"] >= 1 - level)
    assert row["conf_high"] - row["estimate"] != pytest.approx(row["estimate"] - row["conf_low"])


def test_errors_of_effects_are_those_of_the_delta_method():
    """By numerical derivatives of the effect in the coefficients."""
    fit, reference = bought("approximate"), trial(50, seed=8)
    table = average_marginal_effects(fit, reference).table
    names, step = list(fit.coef.index), 1e-5

    def age_effect(coef):
        rows = np.column_stack(
            [np.ones(50), reference["age"], reference["dose"], reference["smoker"] == "yes"]
        )
        p = 1 / (1 + np.exp(-rows @ coef))
        return (p * (1 - p)).mean() * coef[names.index("age")]

    coef = estimates(fit).to_numpy()
    gradient = [
        (age_effect(coef + step * unit) - age_effect(coef - step * unit)) / (2 * step)
        for unit in np.eye(4)
    ]
    expected = np.sqrt(gradient @ fit.vcov().to_numpy() @ gradient)
    assert table.loc["age", "std_error"] == pytest.approx(expected, rel=1e-4)


def test_effects_through_functions_and_interactions():
    frame = trial(2000)
    formula = "y ~ log(age) + dose * smoker"
    fit = drawn(dplr, formula, frame, eps=4.0, spend="inference", **SCHEMA)
    table = average_marginal_effects(fit, frame[:40]).table
    step = 1e-3
    moved = [frame[:40].assign(age=frame["age"][:40] + way * step) for way in (1, -1)]
    slope = (probabilities(fit, moved[0]) - probabilities(fit, moved[1])).mean() / (2 * step)
    assert table.loc["age", "estimate"] == pytest.approx(slope, rel=1e-4)
    assert table["std_error"].gt(0).all()
    with pytest.raises(ArgumentError, match="pass a public frame as reference"):
        average_marginal_effects(fit)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda fit: average_marginal_effects(bought("svm")), ArgumentError, "no probabilities"),
        (lambda fit: average_marginal_effects(3), ArgumentError, "fit=3"),
        (
            lambda fit: average_marginal_effects(fit, variables="smoker"),
            ArgumentError,
            "'smoker' takes was not paid for",
        ),
        (
            lambda fit: average_marginal_effects(fit, variables="sex"),
            ArgumentError,
            "variables: 'sex' is not one of 'age', 'dose', 'smoker'",
        ),
        (
            lambda fit: average_marginal_effects(fit, trial(5)[["age"]]),
            FormulaError,
            "'dose' is missing",
        ),
        (
            lambda fit: average_marginal_effects(fit, trial(5).assign(dose=np.nan)),
            ArgumentError,
            "no row that can be predicted",
        ),
    ],
)
def test_effects_that_are_refused(ask, error, words):
    with pytest.raises(error) as refusal:
        ask(bought("pure"))
    assert words in str(refusal.value)


def test_contrasts_have_the_name_of_statsmodels():
    fit = bought("pure")
    wide = fit.t_test("age", alpha=0.01)
    pd.testing.assert_frame_equal(wide, fit.contrasts("age", level=0.99))
