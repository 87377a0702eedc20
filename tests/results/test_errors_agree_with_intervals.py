"""No page says two things of one coefficient, and no interval is short because a penalty is large.

A standard error and z are shown only where a normal law with them has about the interval and the
p-value. An interval of penalised coefficients is shown only if it is asked for by name.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from frames_for_laws import fit_clinic
from repeated_noise import drawn, trial
from scipy.special import ndtri

from privatelr import (
    average_marginal_effects,
    compare,
    dpsvm,
    plot_coefficients,
    progress_line,
)
from privatelr.inference import Inference, posterior
from privatelr.inference.posterior import chains_of
from privatelr.privacy import ZCDP

LEVELS = (0.95, 0.99)
ALPHAS = (0.001, 0.01, 0.05, 0.1)


@lru_cache
def fitted(noise_seed=3, n=600, **options):
    given = {"spend": "inference", "do_scale": False} | options
    return drawn(fit_clinic, trial(n), noise_seed=noise_seed, **given)


# -- a standard error, a p-value and an interval --------------------------------------------------


def triples(fit, level):
    """Frames of everything that has a z, a p-value and an interval."""
    yield fit.tidy(conf_int=True, conf_level=level)
    yield fit.contrasts("age, dose - 0.4, smoker[T.yes] + dose", level=level)
    for reference in [trial(50)] + [None] * (level == 0.95):
        yield average_marginal_effects(fit, reference, level=level, variables=["age", "dose"]).table


@pytest.mark.parametrize("eps", [0.5, 10.0, ZCDP(0.3)], ids=str)
def test_z_p_and_interval_never_contradict_each_other(eps):
    shown = blank = 0
    for noise_seed in range(3):
        for level in LEVELS:
            for table in triples(fitted(noise_seed, eps=eps), level):
                table = table[table["p_value"].notna()]
                null = table.get("null_value", 0.0)
                excluded = (table["conf_low"] > null) | (table["conf_high"] < null)
                rejected, alpha = table["p_value"] < 1 - level, 1 - level
                near = (table["p_value"] - alpha).abs() < 1e-6  # equal but for rounding
                assert ((excluded == rejected) | near).all()
                assert (table["std_error"].isna() == table["statistic"].isna()).all()
                given = table[table["std_error"].notna()]
                for share in {*ALPHAS, alpha}:
                    far = given["statistic"].abs() > -ndtri(share / 2)
                    assert (far == (given["p_value"] < share)).all()
                half = -ndtri(alpha / 2) * given["std_error"]
                for end, sign in (("conf_low", -1), ("conf_high", 1)):
                    distance = sign * (given[end] - given["estimate"])
                    assert ((distance - half).abs() <= 0.100001 * half).all()
                shown, blank = shown + len(given), blank + len(table) - len(given)
    assert blank > 0 or eps == 10.0
    assert shown > 0 or eps == 0.5


def answer(lower, upper, p_value):
    """An estimate of 1.3 with a standard error of 1."""
    numbers = {"estimate": 1.3, "null": 0.0, "sampling_sd": 0.6, "privacy_sd": 0.8}
    numbers |= {"unknown_sd": 0.0, "lower": lower, "upper": upper, "p_value": p_value}
    how = {"level": 0.95, "mode": "posterior", "target": "unpenalised", "method": "sandwich"}
    return Inference(**{name: np.array([value]) for name, value in numbers.items()}, **how)


@pytest.mark.parametrize(
    ("lower", "upper", "p_value", "is_normal"),
    [
        (1.3 - 1.96, 1.3 + 1.96, 0.1936, True),
        (1.3 - 1.96, 1.3 + 2.1, 0.21, True),
        (0.1, 9.0, 0.035, False),  # the interval has no 0, and z is 1.3
        (1.3 - 1.96, 1.3 + 2.2, 0.1936, False),
        (1.3 - 1.96, 1.3 + 1.96, 0.26, False),
        (1.3 - 1.96, 1.3 + 1.96, 0.0999, False),
    ],
)
def test_the_rule_is_a_function_of_the_released_numbers(lower, upper, p_value, is_normal):
    found = answer(lower, upper, p_value)
    assert found.is_normal == [is_normal]
    assert np.isfinite(found.std_error) == np.isfinite(found.z) == [is_normal]


def test_pages_are_blank_where_tails_are_long():
    fit = fitted(eps=ZCDP(0.3))
    blank = fit.bse.isna()
    assert 0 < blank.sum() < len(blank)
    for as_odds in (False, True):
        summary = fit.summary(exponentiate=as_odds)
        table = summary.coefficients
        for header in ("SE(log)" if as_odds else "Std. Error", "z"):
            cells = [row[table.headers.index(header)] for row in table.cells]
            assert [cell == "" for cell in cells] == blank.to_list()
        for text in (" ".join(summary.as_text().split()), summary.as_html()):
            assert "blank where a normal law would have another interval or p-value." in text
            assert "nan" not in text
    assert np.isnan(np.diag(fit.vcov())).tolist() == blank.to_list()


def test_comparisons_show_intervals_where_errors_are_far_from_normal():
    normal, far = fitted(eps=30.0, n=3000), fitted(eps=1.0)
    assert normal.bse.notna().all()
    assert "(" in compare(normal).terms.cells[1][0]
    text = str(compare(normal, far))
    assert "Intervals stand in place of standard errors, because the errors of (2)" in text
    assert (
        compare(normal, far).terms.cells == compare(normal, far, statistic="conf_int").terms.cells
    )


# -- intervals of shrunk coefficients -------------------------------------------------------------


def widths(eps):
    """Mean widths of printed intervals over releases; one that is not printed is infinite."""
    found = []
    for noise_seed in range(3):
        ends = fitted(noise_seed, 1000, eps=eps).conf_int()
        found.append(ends[1] - ends[0])
    return np.nan_to_num(np.array(found), nan=np.inf).mean(axis=0)


def test_intervals_do_not_grow_with_epsilon():
    found = [widths(eps) for eps in (1e-3, 1e-2, 0.1, 1.0)]
    for smaller, larger in pairwise(found):
        assert (smaller >= larger).all()
    assert (found[0] > 100).all()
    assert np.isfinite(found[-1]).all()


ANSWERS = {
    "bse": lambda fit, **asked: fit.bse if not asked else fit.tidy(**asked)["std_error"],
    "conf_int": lambda fit, **asked: fit.conf_int(**asked),
    "confint": lambda fit, **asked: fit.confint(0.9, simultaneous=True, **asked),
    "vcov": lambda fit, **asked: fit.vcov(**asked),
    "tidy": lambda fit, **asked: fit.tidy(True, **asked)[["std_error", "p_value", "conf_low"]],
    "contrasts": lambda fit, **asked: fit.contrasts("age", **asked)[["p_value", "conf_low"]],
    "wald_test": lambda fit, **asked: fit.wald_test("age, dose", **asked).p_value,
    "deviance_test": lambda fit, **asked: fit.deviance_test("age, dose", **asked).statistic,
    "anova": lambda fit, **asked: fit.anova(**asked)["p_value"],
    "predict": lambda fit, **asked: fit.predict(trial(5), interval=0.9, **asked)["link_upper"],
    "effects": lambda fit, **asked: average_marginal_effects(fit, trial(9), **asked).table.iloc[
        :, 1:
    ],
    "mean effects": lambda fit, **asked: average_marginal_effects(fit, **asked).table["conf_low"],
    "bootstrap": lambda fit, **asked: fit.conf_int(
        method="bootstrap", covariates="uniform", **asked
    ),
}


@pytest.mark.parametrize("ask", ANSWERS.values(), ids=ANSWERS)
def test_nothing_but_a_name_brings_intervals_of_shrunk_coefficients(ask):
    fit = fitted(eps=1000.0, lambda_=1.0)
    assert np.isnan(np.asarray(ask(fit))).all()
    assert np.isfinite(np.asarray(ask(fit, target="penalised"))).all()


def test_plots_have_no_bars_of_shrunk_coefficients():
    plt = pytest.importorskip("matplotlib.pyplot")
    fit = fitted(eps=4.0, lambda_=1.0)
    bars = [plot_coefficients(fit), plot_coefficients(fit, target="penalised")]
    assert "without confidence intervals" in bars[0].get_xlabel()
    assert "95% confidence intervals" in bars[1].get_xlabel()
    assert "shrunk estimates alone" in fit.plot_term("age").get_title()
    assert "95% band" in fitted(eps=4.0).plot_term("age").get_title()
    plt.close("all")


def test_machines_keep_their_intervals():
    """Their coefficients are penalised ones, so that nothing else could be meant."""
    assert fitted(eps=4.0, model=dpsvm).conf_int().notna().all(axis=None)


# -- how long it takes ----------------------------------------------------------------------------


def test_draws_of_many_columns_cost_no_more_than_a_second_or_two():
    """Counted and not timed: a draw costs the third power of the columns."""
    assert [chains_of(d) for d in (1, 6, 15, 24, 40)] == [128, 128, 51, 32, 32]
    costs = [chains_of(d) * d**3 for d in (24, 40, 60, 101)]
    assert max(costs) < 1.3e7
    assert chains_of(500) >= 4


def test_what_may_take_long_shows_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(posterior, "somebody_watches", lambda: True)
    monkeypatch.setattr(progress_line, "OFTEN", 0.0)
    monkeypatch.setattr(posterior, "_LONG", 1)
    str(fitted(noise_seed=77, eps=0.5))
    shown = capsys.readouterr().err
    assert "averaging over matrices |" in shown
    assert shown.endswith("\r")
