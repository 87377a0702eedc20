"""What no record tells is NaN in a plain fit, as R's NA; all else is as in the model without it."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from privatelr import average_marginal_effects, compare, dplr

N = 3000
BOUNDS = {"x": (0, 10), "k": (0, 5), "twice": (0, 21)}
LEVELS = {"g": ["a", "b", "other"]}


def study():
    rng = np.random.default_rng(16)
    data = pd.DataFrame({"x": rng.uniform(0, 10, N), "g": rng.choice(["a", "b"], N)})
    link = 0.3 * data["x"] - 1.5 + 0.4 * (data["g"] == "b")
    data["y"] = (rng.random(N) < 1 / (1 + np.exp(-link))).astype(int)
    return data.assign(k=2.0, twice=2 * data["x"] + 1)


@pytest.mark.parametrize(
    ("formula", "unknown"),
    [
        ("y ~ x + g", {"g[T.other]"}),
        ("y ~ g + k + x", {"g[T.other]", "k"}),
        ("y ~ x + twice + g", {"g[T.other]", "twice"}),
    ],
)
def test_other_terms_are_those_of_the_model_without_it(formula, unknown):
    data = study()
    bounds = {name: ends for name, ends in BOUNDS.items() if name in formula}
    given = {"eps": 0, "lambda_": 1e-9, "spend": "inference", "bounds": bounds, "levels": LEVELS}
    fit = dplr(formula, data, **given)
    known = pd.DataFrame({"(Intercept)": 1.0, "x": data["x"], "g[T.b]": data["g"] == "b"})
    right = sm.GLM(data["y"], known.astype(float), family=sm.families.Binomial())
    right = right.fit(cov_type="HC0", tol=1e-14)
    table = fit.tidy(conf_int=True).set_index("term")
    assert set(table.index) - set(known) == unknown
    columns = ["estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high"]
    assert table.loc[list(unknown), columns].isna().all(axis=None)
    expected = np.column_stack([right.params, right.bse, right.tvalues, right.pvalues])
    found = table.loc[list(known), columns]
    np.testing.assert_allclose(found.iloc[:, :4], expected, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(found.iloc[:, 4:], right.conf_int(), rtol=1e-4)
    single = ((right.params / right.bse) ** 2)[["x", "g[T.b]"]]
    tests = fit.anova(test="wald").loc[["x", "g"]]
    np.testing.assert_allclose(tests["statistic"], single, rtol=1e-4)
    assert tests["df"].tolist() == [1, 1]
    np.testing.assert_allclose(np.sqrt(np.diag(fit.vcov())), table["std_error"], rtol=1e-6)
    assert np.isnan(fit.wald_test("g[T.other]").p_value)
    assert np.isnan(fit.contrasts("g[T.other] - g[T.b]")["p_value"]).all()
    rows = fit.predict(data.head(2).assign(g=["b", "other"]), interval=0.95)
    assert rows.isna().any(axis=1).tolist() == [False, True]
    effect = average_marginal_effects(fit, data.head(50), variables="g").table
    assert effect.isna().all(axis=1).tolist() == [False, True]
    assert "no record tells" in " ".join(str(fit).split())
    assert "no record tells" in " ".join(fit._repr_html_().split())
    assert str(compare([fit]))


def test_noise_tells_an_unseen_level_by_a_wide_interval_and_its_effect_within_one():
    given = {"spend": "inference", "bounds": {"x": (0, 10), "y": (0, 1)}, "levels": LEVELS}
    fit = dplr("y ~ x + g", study(), eps=2.0, **given)
    row = fit.tidy(conf_int=True).set_index("term").loc["g[T.other]"]
    assert row["conf_high"] - row["conf_low"] > 1
    table = average_marginal_effects(fit, study().head(50), variables="g").table
    assert (table[["conf_low", "conf_high"]].abs() <= 1).all(axis=None)
