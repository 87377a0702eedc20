"""Odds ratios with their intervals: numbers, their digits, and what the page says of its errors."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import fit_clinic
from repeated_noise import drawn, trial

from privatelr import ArgumentError, GuaranteeError, dplr, dpsvm
from privatelr.results.odds_ratios import spans_of


@lru_cache
def bought(**options):
    return drawn(fit_clinic, trial(), spend="inference", **({"eps": 2.0} | options))


def cells(page):
    found = {name: {} for name in page.coefficients.names}
    for table in (page.coefficients, *page.parts):
        for name, row in zip(table.names, table.cells, strict=True):
            found[name] |= dict(zip(table.headers, row, strict=True))
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "conservative", "target": "penalised"},
        {"target": "unpenalised"},
        {"alpha": 0.2},
    ],
    ids=str,
)
def test_the_page_has_the_numbers_of_tidy(options):
    fit = bought(eps=4.0)
    page = fit.summary(exponentiate=True, **options)
    asked = {name: value for name, value in options.items() if name != "alpha"}
    level = 1 - options.get("alpha", 0.05)
    tidy = fit.tidy(conf_int=True, conf_level=level, exponentiate=True, **asked).set_index("term")
    ends = (f"[{(1 - level) / 2:.6g}", f"{(1 + level) / 2:.6g}]")
    parts = ("sampling", "privacy", "unknown")
    columns = {
        "Odds Ratio": "estimate",
        "SE(log)": "std_error_log",
        **{f"{part} sd": f"{part}_sd_log" for part in parts},
        "z": "statistic",
        **dict(zip(ends, ("conf_low", "conf_high"), strict=True)),
    }
    for term, row in cells(page).items():
        for header in row.keys() & columns.keys():
            # two digits of what it is uncertain by
            column = columns[header]
            shown, exact = float(row[header] or "nan"), tidy.loc[term, column]
            size = np.log(tidy.loc[term, "conf_high"] / tidy.loc[term, "conf_low"]) / 4
            size *= tidy.loc[term, "estimate"]
            slack = size / 15 if column in ("estimate", "conf_low", "conf_high") else 0.01
            assert shown == pytest.approx(exact, rel=0.05, abs=slack, nan_ok=True), header
    assert {"Estimate", "Std. Error"}.isdisjoint(page.coefficients.headers)


def test_without_inference_the_page_stays_and_has_odds_ratios():
    fit = drawn(fit_clinic, trial())
    said = "Odds ratios have no intervals here, because there are no standard errors.\n"
    text = fit.summary(exponentiate=True).as_text()
    assert said in text
    assert text.replace(said, "") == str(fit)
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


# -- units that can be read ------------------------------------------------------------------


def measured(factor, **options):
    """A fit to ages of which one counts so many years, beside a factor."""
    frame = trial()
    frame["length"] = frame["age"] / factor
    given = {
        "bounds": {"length": (18 / factor, 90 / factor), "y": (0, 1)},
        "levels": {"smoker": ["no", "yes"]},
    }
    return dplr("y ~ length + smoker", frame, eps=0, lambda_=1e-3, **given, **options)


@pytest.mark.parametrize(
    ("factor", "per"), [(1e-6, 1e7), (1e-2, 1e3), (1e3, 1e-2), (1e6, 1e-5)], ids=str
)
def test_odds_ratios_near_to_1_or_far_from_it_are_of_powers_of_ten_of_units(factor, per):
    """Those of the unit that plain years would be shown in, told by a column or by the name."""
    years = measured(1.0, spend="inference")
    alike = np.exp(years.tidy(conf_int=True).set_index("term").loc["length"] * per * factor)
    bare = cells(measured(factor).summary())
    assert bare["length"]["per"] == f"{per:g}"
    assert bare["smoker[T.yes]"]["per"] == ""
    released = np.exp(years.coef["length"] * per * factor)
    assert float(bare["length"]["odds ratio"]) == pytest.approx(released, abs=1e-3)
    row = cells(measured(factor, spend="inference").summary(exponentiate=True))[
        f"length (per {per:g})"
    ]
    for header, column in [
        ("Odds Ratio", "estimate"),
        ("[0.025", "conf_low"),
        ("0.975]", "conf_high"),
    ]:
        assert float(row[header]) == pytest.approx(alike[column], abs=2e-3)
    assert float(row["SE(log)"]) == pytest.approx(np.log(alike["std_error"]), rel=0.01)
    assert row["z"] == cells(years.summary())["length"]["z"]


def test_the_unit_of_an_odds_ratio_does_not_depend_on_its_estimate():
    """Of a column without an effect; whether it is near to 0 is chance, and changes no page."""
    frame = trial().assign(nothing=np.tile([20.0, 80.0], 1500))
    public = {"bounds": {"nothing": (18, 90), "y": (0, 1)}}
    for options in ({"eps": 1.0}, {"eps": 0, "lambda_": 1.0}):
        fit = dplr("y ~ nothing", frame, **options, **public)
        assert "per" not in fit.summary().coefficients.headers


@pytest.mark.parametrize("sign", [1, -1])
def test_no_odds_ratio_is_infinite_or_zero(sign):
    """An intercept far from the values of its column has an odds ratio beyond all numbers."""
    frame = trial()
    frame["year"] = 1e6 - sign * frame["age"]
    bounds = {"year": (1e6 - 90, 1e6 - 18) if sign == 1 else (1e6 + 18, 1e6 + 90)}
    shown = "> 1e+308" if sign == 1 else "< 1e-308"
    for spend, header in ((None, "odds ratio"), ("inference", "Odds Ratio")):
        fit = dplr(
            "y ~ year", frame, eps=0, lambda_=1e-3, bounds=bounds, spend=spend, levels={"y": [0, 1]}
        )
        page = fit.summary(exponentiate=True)
        assert cells(page)["(Intercept)"][header] == shown
        for text in (page.as_text(), page.as_html()):
            assert "inf" not in text.replace("information", "").replace("inference", "")


@pytest.mark.parametrize("eps", [0.1, 100.0])
def test_ranges_are_those_that_were_declared_whatever_scale_was_released(eps):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.uniform(0, 3, 900), "s": rng.choice(["a", "b"], 900)})
    frame["y"] = rng.integers(0, 2, 900)
    public = {"bounds": {"x": (-10, 30), "y": (0, 1)}, "levels": {"s": ["a", "b"]}}
    fit = dplr("y ~ x * s + I(2 * x)", frame, eps=eps, **public)
    assert (fit.scale is not None) == (eps > 1)
    found = dict(zip(fit.spec.columns.names, spans_of(fit).tolist(), strict=True))
    numbers = {name: span for name, span in found.items() if "x" in name}
    assert sorted(numbers.values()) == pytest.approx([40, 40, 80])
    assert all(np.isnan(span) for name, span in found.items() if name not in numbers)
