"""What a plan shows: other promises, page, files, picture."""

import json
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

from privatelr import ZCDP, ApproxDP, GuaranteeError, PureDP, plan

SHORT = "chd ~ age"
PUBLIC = {"bounds": {"age": (15, 65)}, "levels": {"famhist": ["Absent", "Present"]}}


@lru_cache(maxsize=64)
def planned_for(n=30_000, eps=1.0, formula=SHORT, **options):
    return plan(formula, n, eps, **PUBLIC, **options)


# -- other promises -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "promises"),
    [
        ({}, [PureDP(1.0), PureDP(2.0), PureDP(0.5), ApproxDP(1.0, 1e-6)]),
        (
            {"delta": 1e-5},
            [ApproxDP(1.0, 1e-5), ApproxDP(2.0, 1e-5), ApproxDP(0.5, 1e-5), PureDP(1.0)],
        ),
        ({"eps": ZCDP(0.5)}, [ZCDP(0.5), ZCDP(1.0), ZCDP(0.25)]),
    ],
)
def test_other_promises_are_plans_of_their_own(options, promises):
    chosen = planned_for(**options)
    table = chosen.table()
    assert list(table["guarantee"]) == [str(promise) for promise in promises]
    assert tuple(table.loc[0, ["privacy_sd", "std_error"]]) == (1, 1)
    for promise, row in zip(promises, table.itertuples(), strict=True):
        other = planned_for(eps=promise)
        assert row.lambda_ == other.calibration.coefficients.lambda_
        by_noise = other.errors.privacy_sd[1:] / chosen.errors.privacy_sd[1:]
        assert row.privacy_sd == pytest.approx(np.exp(np.log(by_noise).mean()), rel=0.05)
        widths = other.intervals.width[1:] / chosen.intervals.width[1:]
        assert row.std_error == pytest.approx(np.exp(np.log(widths).mean()), rel=0.1)


def test_a_plan_without_privacy_is_compared_with_no_promise():
    assert len(planned_for(eps=0).table()) == 1
    assert "Another promise" not in str(planned_for(eps=0))


def test_wide_designs_have_errors_and_no_intervals():
    wide = plan(21, 5000, 1.0)
    assert wide.intervals is None
    assert wide.pessimistic is None
    assert wide.to_frame()["width"].isna().all()
    assert "not forecast for more than 20 columns" in flat(wide)
    for ask in (wide.needed_n, wide.needed_eps):
        with pytest.raises(GuaranteeError, match=r"21 columns.* at most 20"):
            ask(0.1)


# -- the page -----------------------------------------------------------------------------------

PAGES = [
    {},
    {"loss": "huber"},
    {"eps": 0.5, "n": 100},
    {"delta": 1e-6, "op": False, "formula": SHORT},
    {"spend": None},
    {"eps": 0},
]


@pytest.mark.parametrize("options", PAGES)
def test_the_page_fits_79_columns_and_html_has_its_words(options):
    outlook = planned_for(**{"formula": "chd ~ famhist"} | options)
    page = str(outlook)
    assert max(map(len, page.splitlines())) <= 79
    assert "nan" not in page
    assert "No data were read" in page
    html = outlook._repr_html_()
    for words in ("Promise", outlook.terms[1], "Assumed", *outlook.assumptions):
        assert words.split(" (")[0] in html
    assert "<script" not in html


def flat(outlook):
    return " ".join(str(outlook).split())


FACTOR, MANY = "chd ~ age + famhist", 100_000
"""Intervals of many records are quick to come by."""
NUMBERS_APART = "numbers centred and scaled by the released moments, records longer than"


@pytest.mark.parametrize("spend", [None, "inference"])
def test_words_about_standardised_rows_are_true(spend):
    scaled, declared = (
        planned_for(MANY, formula=FACTOR, spend=spend, do_scale=way) for way in ("private", False)
    )
    assert scaled.calibration.scale is not None
    assert "the scale that standardises the rows is that of these records" in flat(scaled)
    assert "the scale that standardises" not in flat(declared)
    # a pure scale is that of numbers, and a factor has a block of its own
    assert NUMBERS_APART in flat(scaled)
    assert "other columns times 2" in flat(scaled)
    alone = planned_for(MANY, formula=SHORT, spend=spend, do_scale="private")
    gaussian = planned_for(MANY, ZCDP(0.5), FACTOR, spend="inference", do_scale="private")
    for outlook in (alone, gaussian):
        assert "columns centred and scaled by the released moments, records" in flat(outlook)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "taking the penalty off multiplies the noise, and intervals are"),
        ({"spend": None}, "an interval is short because the penalty holds the coefficient near 0"),
    ],
)
def test_what_little_is_kept_means_goes_with_the_target(asked, told):
    found = planned_for(n=80, formula="chd ~ age + famhist", **asked)
    assert found.to_frame()["kept"].min() < 0.5
    assert found.intervals is None or found.intervals.target == "unpenalised"
    assert f"Where little is kept, {told}" in " ".join(str(found).split())


# -- the plot -----------------------------------------------------------------------------------


def test_a_plot_has_a_line_for_each_size():
    pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    found = planned_for().plot("age", n=[20_000, 80_000], eps=[0.5, 2.0], ax=axes)
    assert found is axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        *("n = 20,000", "n = 80,000", "the plan")
    ]
    few, many = (line.get_ydata() for line in axes.get_lines() if "n =" in line.get_label())
    assert (np.array(many) < np.array(few)).all()
    assert few[1] < few[0]
    assert "age" in axes.get_ylabel()


COUNTED = {"age": (15, 65), "w": (0.0, 4.0)}


@pytest.mark.parametrize(
    ("counting", "total", "kish"),
    [
        ({"weights": "w"}, 9000 * 2 / 4, 9000 * 4 / (4 + 1.0)),
        ({"subset": "age > 40"}, 6000.0, 6000.0),
        ({"weights": "w", "subset": "age > 40"}, 9000 / 3, 9000 * 4 / (4 + 1.0) / 1.5),
        ({"by": "sex"}, 3000.0, 3000.0),
    ],
    ids=str,
)
def test_a_plan_says_how_many_records_count(counting, total, kish):
    """By a pilot of which two thirds are older, one third is female, and weights are 1 or 3."""
    pilot = pd.DataFrame({"age": [30, 50, 60] * 4, "w": [1.0] * 6 + [3.0] * 6})
    pilot["sex"] = ["f", "m", "m"] * 4
    declared = {"bounds": COUNTED, "levels": {"sex": ["f", "m"]}}
    outlook = plan("chd ~ age", 9000, spend=None, pilot=pilot, **counting, **declared)
    found = json.loads(outlook.to_json())["counted"]
    assert found == pytest.approx({"total": total, "effective": kish})
    page = " ".join(str(outlook).split())
    assert f"Counted records add up to {total:,.0f} that count fully" in page
    assert f"and have the sampling errors of {kish:,.0f}" in page
