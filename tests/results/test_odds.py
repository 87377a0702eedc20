"""Odds ratios with their intervals: numbers, their digits, and what the page says of its errors."""

from functools import lru_cache

import numpy as np
import pytest
from frames_for_laws import fit_clinic
from repeated_noise import drawn, trial

from privatelr import ArgumentError, GuaranteeError, dpsvm
from privatelr.results.summary_odds import _cells, _places


@lru_cache
def bought(**options):
    return drawn(fit_clinic, trial(), spend="inference", **({"eps": 2.0} | options))


def cells(page):
    table = page.coefficients
    return {
        name: dict(zip(table.headers, row, strict=True))
        for name, row in zip(table.names, table.cells, strict=True)
    }


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "conservative"}, {"target": "unpenalised"}, {"alpha": 0.2}],
    ids=str,
)
def test_the_page_has_the_numbers_of_tidy(options):
    fit = bought(eps=4.0)
    page = fit.summary(exponentiate=True, **options)
    asked = {name: value for name, value in options.items() if name != "alpha"}
    level = 1 - options.get("alpha", 0.05)
    tidy = fit.tidy(conf_int=True, conf_level=level, exponentiate=True, **asked).set_index("term")
    ends = (f"[{(1 - level) / 2:.6g}", f"{(1 + level) / 2:.6g}]")
    columns = dict(
        zip(
            ("Odds Ratio", "SE(log)", "privacy part", "z", *ends),
            ("estimate", "std_error_log", "privacy_sd_log", "statistic", "conf_low", "conf_high"),
            strict=True,
        )
    )
    for term, row in cells(page).items():
        for header, column in columns.items():
            # two digits of what it is uncertain by
            shown, exact = float(row[header]), tidy.loc[term, column]
            size = tidy.loc[term, "std_error_log"] * tidy.loc[term, "estimate"]
            slack = size / 15 if column in ("estimate", "conf_low", "conf_high") else 0.01
            assert shown == pytest.approx(exact, rel=0.05, abs=slack), (term, header)
    assert {"Estimate", "Std. Error"}.isdisjoint(page.coefficients.headers)


def test_words_and_width():
    fit = bought()
    text = fit.summary(exponentiate=True).as_text()
    assert max(map(len, text.splitlines())) <= 79
    words = " ".join(text.split())
    assert "Odds ratios and the ends of their intervals are exponentials" in words
    assert "SE(log) is the Std. Error of the coefficient, which is the logarithm" in words
    assert "exponentials" not in str(fit)
    page = fit.summary(exponentiate=True)
    assert "Odds Ratio" in page.as_html()
    assert "Odds Ratio" in page.as_csv()
    assert "Odds Ratio" in page.as_latex()
    assert "the dashed line is an odds ratio of 1." in page.as_html()
    assert "The dashed line is zero." not in page.as_html()


def test_without_inference_the_page_stays_and_has_odds_ratios():
    fit = drawn(fit_clinic, trial())
    assert fit.summary(exponentiate=True).as_text() == str(fit)
    assert "odds ratio" in str(fit)
    with pytest.raises(GuaranteeError, match="spend='inference'"):
        fit.summary(exponentiate=True, mode="posterior")


def test_what_it_refuses():
    svm = bought(model=dpsvm)
    for ask in (svm.summary, svm.tidy):
        with pytest.raises(ArgumentError, match="a support vector machine are not logarithms"):
            ask(exponentiate=True)
    with pytest.raises(ArgumentError, match="exponentiate='yes': exponentiate takes True"):
        bought().summary(exponentiate="yes")


def test_errors_that_stay_on_the_logarithm_say_so():
    fit = bought()
    odds, plain = fit.tidy(conf_int=True, exponentiate=True), fit.tidy(conf_int=True)
    for name in ("std_error", "sampling_sd", "privacy_sd"):
        np.testing.assert_array_equal(odds[f"{name}_log"], plain[name])
        assert name not in odds
    bare = drawn(fit_clinic, trial())
    tidy = bare.tidy(exponentiate=True)
    assert list(tidy.columns) == ["term", "estimate", "privacy_sd_log"]
    np.testing.assert_array_equal(tidy["privacy_sd_log"], bare.privacy_sd)


@pytest.mark.parametrize(
    ("value", "sd", "shown"),
    [
        (0.9628561, 0.0046, "0.9629"),
        (3.489256, 0.73, "3.49"),
        (12.6, 4.4, "12.6"),
        (1234.5, 500.0, "1234"),
        (0.0824, 7.0, "0.082"),
        (0.99999951, 3e-7, "1.000000"),
        (3e-9, 1e-9, "3.00e-09"),
        (2.5e7, 1e7, "2.50e+07"),
        (np.inf, np.inf, "inf"),
        (1.5, np.nan, "1.500"),
        (np.nan, np.nan, "nan"),
    ],
)
def test_digits(value, sd, shown):
    assert _cells(np.array([value]), [_places(sd)]) == (shown,)
