"""`plan` forecasts what `dplr` and `dpsvm` do: the calibration exactly, the errors nearly."""

import inspect
import json
import math
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

import privatelr
from privatelr import (
    ZCDP,
    ArgumentError,
    FormulaError,
    GuaranteeError,
    PrivateLRError,
    SchemaError,
    dplr,
    dpsvm,
    plan,
)
from privatelr.inference import Guesses, spread_quantiles
from privatelr.inference.guessed_columns import usual_spread
from privatelr.numerics import c_index
from privatelr.planning.forecast import simulate
from privatelr.planning.made_up_records import pessimistic, population_of

FORMULA = "chd ~ age + sbp + famhist"
SHORT = "chd ~ age"  # its intervals are quick to come by
PUBLIC = {
    "bounds": {"age": (15, 65), "sbp": (90, 220)},
    "levels": {"famhist": ["Absent", "Present"]},
}


def patients(n, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.uniform(15, 65, n),
            "sbp": rng.normal(140, 20, n),
            "famhist": rng.choice(["Absent", "Present"], n),
            "chd": rng.random(n) < 0.4,
        }
    )


@lru_cache(maxsize=64)
def planned_for(n=30_000, eps=1.0, formula=SHORT, **options):
    return plan(formula, n, eps, **PUBLIC, **options)


# -- the calibration is the one that a fit has ------------------------------------------------

SETTINGS = [
    (dplr, {}),
    (dplr, {"eps": 0.3, "delta": 1e-6}),
    (dplr, {"eps": ZCDP(0.2), "op": False}),
    (dplr, {"lambda_": 0.5, "intercept_scale": 1.0, "row_norm": 1.2}),
    (dplr, {"spend": None, "analysis": "cms11"}),
    (dplr, {"spend": {"coefficients": 0.8, "inference": 0.2}, "lambda_": "auto"}),
    (dpsvm, {"loss": "huber", "h": 0.3}),
    (dpsvm, {"loss": "softplus", "eps": 2.0, "delta": 1e-5}),
]


@pytest.mark.parametrize(("fitter", "options"), SETTINGS)
def test_the_calibration_is_the_one_of_a_fit(fitter, options):
    data = patients(300)
    fit = fitter(FORMULA, data, **{"spend": "inference"} | options, **PUBLIC)
    outlook = plan(FORMULA, 300, **options, **PUBLIC)
    assert outlook.calibration.coefficients == fit.calibration
    moments = fit.release.moments
    assert outlook.calibration.moments == (moments.calibration if moments else None)
    assert list(outlook.terms) == list(fit.coef.index)


SCALED = [
    (dplr, {}),
    (dplr, {"spend": None, "op": False}),
    (dplr, {"delta": 1e-6}),
    (dplr, {"eps": ZCDP(0.05), "intercept_scale": 0.4}),
    (dplr, {"do_scale": "private", "row_norm": 2.5, "eps": 0.05}),
    (dplr, {"spend": {"scale": 0.2, "coefficients": 0.5, "inference": 0.3}}),
    (dpsvm, {"loss": "softplus", "delta": 1e-6}),
]


@pytest.mark.parametrize(("fitter", "options"), SCALED)
def test_the_scale_is_the_one_of_a_fit(fitter, options):
    fit = fitter(FORMULA, patients(8000), **{"spend": "inference"} | options, **PUBLIC)
    outlook = plan(FORMULA, 8000, **options, **PUBLIC)
    assert outlook.calibration.scale == fit.release.scale.calibration
    assert outlook.calibration.coefficients == fit.calibration
    assert (outlook.spec.radius, outlook.spec.blocks) == (fit.spec.radius, fit.spec.blocks)


def test_the_scale_is_left_out_where_a_fit_leaves_it_out():
    # of many records, whose intervals are quick to come by
    for n, options in [(60, {}), (200_000, {"do_scale": False}), (200_000, {"row_norm": 1.0})]:
        outlook = plan(FORMULA, n, **options, **PUBLIC)
        assert outlook.calibration.scale is None
        assert "Scale" not in str(outlook)
        assert dplr(FORMULA, patients(n), spend="inference", **options, **PUBLIC).scale is None
    with pytest.raises(privatelr.ArgumentError, match="do_scale=True"):
        plan(FORMULA, 300, do_scale=True, **PUBLIC)


def test_made_up_rows_are_standardised_by_their_own_moments():
    sim = simulate(planned_for(formula=FORMULA, spread=0.2).study)
    assert sim.stages.scale is not None
    share = sim.data.counts / sim.data.counts.sum()
    x = sim.data.rows * np.sign(sim.data.rows[:, :1])  # the intercept gives the label away
    numbers = x[:, 1:3] * sim.data.sizes[:, None]  # before long ones count less
    deviation = np.sqrt(share @ (numbers - share @ numbers) ** 2)
    np.testing.assert_allclose(share @ numbers, 0, atol=0.02)
    np.testing.assert_allclose(deviation * sim.length, 1.0, rtol=0.05)


def test_a_page_names_the_scale():
    page = " ".join(str(planned_for()).split())
    assert "scale epsilon = 0.1, ranges epsilon = 0.0083, lengths epsilon = 0.05" in page
    assert "records longer than a released length count less (most likely " in page
    document = json.loads(planned_for().to_json())
    assert document["parts"]["scale"]["epsilon"] == 0.1
    assert document["facts"]["Scale"].startswith("10 % of epsilon for means")
    assert planned_for(do_scale=False).calibration.scale is None


def test_a_plan_has_no_place_for_data():
    arguments = set(inspect.signature(plan).parameters)
    assert not arguments & {"data", "target", "ledger", "threshold", "seed"}
    assert {*inspect.signature(dplr).parameters} >= arguments - {
        *("n", "loss", "h", "balance", "spread", "c_index", "correlation", "pilot")
    }


# -- the errors -------------------------------------------------------------------------------


def test_the_mode_stays_where_noise_hides_the_curvature():
    outlook = planned_for(100, 0.5)
    assert outlook.intervals.mode == "posterior"
    assert outlook.intervals.noise_to_signal > 1


def test_without_privacy_errors_are_the_classical_ones():
    outlook = planned_for(50_000, 0, lambda_=1e-9)
    frame = outlook.to_frame()
    assert (frame["privacy_sd"] == 0).all()
    np.testing.assert_allclose(frame["width"], 2 * 1.95996 * frame["sampling_sd"], rtol=1e-4)


def test_less_noise_more_records_and_a_smaller_penalty_help():
    frame = planned_for().to_frame()
    for better in (planned_for(60_000), planned_for(30_000, 2.0)):
        assert (better.to_frame()["width"] < frame["width"]).all()
        assert (better.to_frame()["privacy_sd"] < frame["privacy_sd"]).all()
        assert (better.to_frame()["kept"] > frame["kept"]).all()
    assert ((frame["kept"] > 0) & (frame["kept"] < 1)).all()


# -- guesses and pilots -----------------------------------------------------------------------


def weighted(outlook):
    """Rows, labels and shares of the made-up records."""
    spec = outlook.study.spec
    population, scale = outlook.study.population.signed(spec), spec.intercept
    labels = population.rows[:, 0] / scale
    return population.rows * labels[:, None], labels, population.counts


def test_made_up_records_are_what_was_guessed():
    options = {"balance": 0.2, "spread": 0.3, "c_index": 0.8, "spend": None}
    x, labels, shares = weighted(plan(FORMULA, 500, **PUBLIC, **options))
    assert shares.sum() == pytest.approx(1)
    assert shares[labels > 0].sum() == pytest.approx(0.2)
    moments = [shares @ x[:, 1:3], shares @ x[:, 1:3] ** 2]
    np.testing.assert_allclose(moments, [[0, 0], [0.09, 0.09]], atol=1e-3)
    assert shares @ x[:, 3] == pytest.approx(shares @ x[:, 3] ** 2)  # 0 or 1
    rng = np.random.default_rng(1)
    drawn = rng.choice(len(x), 40_000, p=shares / shares.sum())
    predictor = x[drawn] @ np.array([0, *(1 / x[:, 1:].std(axis=0))])
    assert c_index(predictor, labels[drawn] > 0) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("spread", [0.01, 0.2, 3**-0.5, 0.9, 1.0])
def test_quantiles_of_a_spread(spread):
    values = spread_quantiles((np.arange(20_000) + 0.5) / 20_000, spread)
    assert np.abs(values).max() <= 1
    assert values.mean() == pytest.approx(0, abs=1e-9)
    assert values.std() == pytest.approx(spread, rel=5e-3)
    if spread == 3**-0.5:
        np.testing.assert_allclose(values, np.linspace(-1, 1, 20_000), atol=1e-3)


def test_a_pilot_takes_the_place_of_the_guesses():
    pilot = patients(500)
    given = plan(FORMULA, 500, spend=None, pilot=pilot, **PUBLIC)
    _, labels, shares = weighted(given)
    assert shares[labels > 0].sum() == pytest.approx(pilot["chd"].mean())
    same = plan(FORMULA, 500, spend=None, pilot=pilot, balance=0.9, spread=0.1, **PUBLIC)
    assert given.to_frame().equals(same.to_frame())
    assert "500 of the public pilot" in " ".join(given.assumptions)


def columns_of(formula, **options):
    """The made-up covariates, in the units of the declared bounds: -1 to 1 for numbers."""
    spec = planned_for(formula=formula, spend=None).study.spec
    return population_of(spec, Guesses(**options), None).rows(spec).x[:, 1:]


def test_made_up_numbers_are_as_correlated_as_was_guessed():
    for correlation in (0.0, 0.5, 0.9):
        age, sbp, famhist = columns_of(FORMULA, correlation=correlation).T
        # between made-up columns of normal quantiles it would be this but for sampling
        assert np.corrcoef(age, sbp)[0, 1] == pytest.approx(correlation, abs=0.06)
        assert abs(np.corrcoef(age, famhist)[0, 1]) < 0.06


@pytest.mark.parametrize(
    ("low", "high", "lies"),
    [
        *((0, 1000, "low"), (13_492, 1_490_400, "low"), (-5000, 20_000, "low")),
        *((0, 10, "middle"), (80, 220, "middle"), (-3, 3, "middle"), (-500, 500, "middle")),
    ],
)
def test_amounts_that_begin_near_zero_are_skewed(low, high, lies):
    spec = plan("y ~ x", 10_000, spend=None, bounds={"x": (low, high)}).study.spec
    values = population_of(spec, Guesses(), None).rows(spec).x[:, 1]
    assert values.std() == pytest.approx(usual_spread(low, high), rel=0.02)
    assert abs(values).max() <= 1 + 1e-12
    skew = np.mean((values - values.mean()) ** 3) / values.std() ** 3
    assert (skew > 1.5) == (lies == "low")
    assert (values.mean() < -0.3) == (lies == "low")


def test_a_spread_may_be_that_of_one_column():
    age, sbp, _ = columns_of(FORMULA, spread={"sbp": 0.1}).T
    assert age.std() == pytest.approx(usual_spread(15, 65), rel=0.01)
    assert sbp.std() == pytest.approx(0.1, rel=0.01)
    for wrong, words in [({"sbp": 2}, r"spread\['sbp'\]=2"), ({"sbq": 0.1}, "mean 'sbp'")]:
        with pytest.raises(ArgumentError, match=words):
            plan(FORMULA, 500, spread=wrong, **PUBLIC)


def test_levels_are_unequally_common():
    levels = {"group": list("abcde")}
    spec = plan("y ~ group", 10_000, spend=None, levels=levels).study.spec
    shares = population_of(spec, Guesses(), None).rows(spec).x[:, 1:].mean(axis=0)
    expected = 5.0 ** (-1.5 * np.arange(5) / 4)
    np.testing.assert_allclose(shares, expected[[1, 0, 4, 3]] / expected.sum(), atol=0.002)
    short = plan("y ~ group", 10_000, spend=None, levels={"group": list("abc")}).study.spec
    for guesses, order in [(Guesses(), [2, 1]), (pessimistic(Guesses()), [0, 1])]:
        shares = population_of(short, guesses, None).rows(short).x[:, 1:].mean(axis=0)
        expected = 3.0 ** (-1.5 * np.arange(3) / 2)
        np.testing.assert_allclose(shares, expected[order] / expected.sum(), atol=0.002)


# -- pessimism --------------------------------------------------------------------------------


def test_pessimistic_widths_are_longer_and_their_guesses_are_named():
    outlook = planned_for(formula=FORMULA)
    frame = outlook.to_frame()
    ratio = frame["pessimistic"] / frame["width"]
    assert ((ratio > 1.1) & (ratio < 8)).all()
    assert any(
        all(word in clause for word in ("pessimistic", "0.5 times", "0.625", "0.2 ", "0.812"))
        and "the first level of a factor is the rarest" in clause
        for clause in outlook.assumptions
    )
    outlook = planned_for(formula="chd ~ age + sbp")
    frame = outlook.to_frame()
    worse = pessimistic(Guesses())
    options = {"balance": worse.balance, "c_index": worse.c_index}
    options |= {"correlation": worse.correlation}
    options |= {
        "spread": {name: 0.5 * usual_spread(*PUBLIC["bounds"][name]) for name in ("age", "sbp")}
    }
    numbers = {"bounds": PUBLIC["bounds"]}
    same = plan("chd ~ age + sbp", 30_000, **options, **numbers).to_frame()
    np.testing.assert_array_less(same["width"], frame["pessimistic"])
    np.testing.assert_allclose(same["width"], frame["pessimistic"], rtol=0.2)


def test_a_pilot_with_classes_leaves_only_the_noise_and_the_sample_to_doubt():
    outlook = plan(SHORT, 4000, pilot=patients(2000), **PUBLIC)
    ratio = outlook.pessimistic.width / outlook.intervals.width
    assert ((ratio >= 1) & (ratio < 1.5)).all()
    assert not any("pessimistic" in clause for clause in outlook.assumptions)


# -- needed n, needed epsilon -------------------------------------------------------------------


def width_of(outlook, term):
    return outlook.to_frame().set_index("term").loc[term, "width"]


def test_needed_n_is_enough_and_hardly_more():
    n = planned_for().needed_n(0.005, "age")
    assert width_of(planned_for(n), "age") <= 0.005
    assert width_of(planned_for(int(0.95 * n)), "age") > 0.005


def test_needed_eps_is_enough_and_hardly_more():
    eps = planned_for(delta=1e-6).needed_eps(0.0088, "age")
    assert width_of(planned_for(30_000, eps, delta=1e-6), "age") <= 0.0088
    assert width_of(planned_for(30_000, 0.9 * eps, delta=1e-6), "age") > 0.0088


UNATTAINABLE = [
    (
        lambda: planned_for().needed_eps(0.001, "age"),
        ["width=0.001", "n=30000", "'age'", "needed_n"],
    ),
    (lambda: planned_for(op=False).needed_n(1e-5), ["up to 1e+08", "op=True"]),
    (lambda: planned_for().needed_n(1e-9, "age"), ["up to 1e+08", "larger width"]),
    (lambda: planned_for(spend=None).needed_n(0.1), ["spend='inference'"]),
    (lambda: planned_for(5000, 0).needed_eps(0.1), ["eps=0"]),
]


@pytest.mark.parametrize(("ask", "words"), UNATTAINABLE)
def test_where_nothing_suffices_one_sentence_says_so(ask, words):
    with pytest.raises(GuaranteeError) as refused:
        ask()
    assert all(word in str(refused.value) for word in words), refused.value
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


# -- what is refused ----------------------------------------------------------------------------

REFUSED = [
    ({"formula": "chd ~ age + ldl"}, SchemaError, ["'ldl'", "bounds=", "levels="]),
    ({"formula": "chd ~ poly(age, 2)"}, SchemaError, ["learns"]),
    ({"formula": "sbp ~ age"}, SchemaError, ["'sbp'", "compare it"]),
    ({"formula": "age +"}, FormulaError, ["'~'"]),
    ({"formula": None}, FormulaError, ["formula=None", "number of design columns"]),
    ({"formula": patients(3)}, FormulaError, ["<DataFrame>"]),
    ({"formula": True}, FormulaError, ["formula=True"]),
    ({"formula": 0, "bounds": None, "levels": None}, FormulaError, ["from 1 to 200"]),
    ({"n": 10.5}, ArgumentError, ["n=10.5", "whole number"]),
    ({"n": 0}, ArgumentError, ["n=0"]),
    ({"n": "many"}, ArgumentError, ["n='many'"]),
    ({"eps": -1}, GuaranteeError, ["eps=-1"]),
    ({"delta": 2}, GuaranteeError, ["delta=2"]),
    ({"lambda_": 1e-9, "on_small_lambda": "keep"}, GuaranteeError, ["too small"]),
    ({"spend": {"roc": 1}}, GuaranteeError, ["no share for the coefficients"]),
    ({"spend": {"coefficients": 0.5, "auc": 0.5}}, GuaranteeError, ["auc"]),
    ({"loss": "hinge"}, ArgumentError, ["loss='hinge'", "'huber'"]),
    ({"h": 0.2}, ArgumentError, ["h=0.2", "loss='huber'"]),
    ({"loss": "huber", "h": 2}, ArgumentError, ["h=2"]),
    ({"balance": 1}, ArgumentError, ["balance=1", "0.999"]),
    ({"spread": 0}, ArgumentError, ["spread=0", "0.01"]),
    ({"c_index": 0.4}, ArgumentError, ["c_index=0.4", "nothing to find"]),
    ({"pilot": 7}, SchemaError, ["pilot: data of type int"]),
    ({"pilot": patients(0)}, ArgumentError, ["pilot: it is empty"]),
    ({"pilot": patients(5).drop(columns="sbp")}, SchemaError, ["pilot: the column 'sbp'"]),
    ({"pilot": patients(5).assign(age=np.nan)}, ArgumentError, ["none of its records"]),
]


@pytest.mark.parametrize(("changed", "error", "words"), REFUSED)
def test_what_is_refused(changed, error, words):
    with pytest.raises(PrivateLRError) as refused:
        plan(**{"formula": FORMULA, "n": 462, **PUBLIC, **changed})
    sentence = str(refused.value)
    assert isinstance(refused.value, error)
    assert all(word in sentence for word in words), sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("formula", "d"),
    [
        ("chd ~ age * famhist + log(sbp)", 5),
        ("chd ~ age - 1", 1),
        ("chd ~ 1", 1),
        ("chd ~ . - age", 3),
        ("age > 40 & sbp > 140 ~ sbp + famhist", 3),
        ("factor(chd) ~ I(age^2)", 2),
        ("ifelse(chd == 'yes', 1, 0) ~ age", 2),
    ],
)
def test_any_formula_can_be_planned(formula, d):
    outlook = plan(formula, 20_000, spend=None, **PUBLIC)
    assert outlook.study.spec.d == d
    assert (outlook.errors.sd > 0).all()


def test_columns_without_bounds_take_row_norm():
    outlook = plan("y ~ a + age", 20_000, spend=None, row_norm=1.5, bounds={"age": (15, 65)})
    assert outlook.study.spec.unbounded_norm == 1.5
    assert outlook.study.spec.bound == pytest.approx(math.hypot(1.5, 1.0))
    words = " ".join(str(outlook).split())
    assert f"R = {outlook.study.spec.radius:.3g} from declared bounds and row_norm" in words
    assert any("(spread) of the limit 1.5" in clause for clause in outlook.assumptions)
