"""Fits with a private scale, from frames to predictions: what the first stage does to rows."""

import math
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from achieved_guarantees import achieved, achieved_scale
from frames_for_laws import clinic, fixed_noise, own_stages
from raw_designs import raw_design
from scipy import sparse

import privatelr.fitting
from privatelr import (
    ZCDP,
    ApproxDP,
    ArgumentError,
    PureDP,
    SchemaError,
    SchemaWarning,
    audit,
    dplpsvm,
    dplr,
    dpsimplex,
    dpsvm,
    load,
    plan,
)
from privatelr.design import plan_design, read_design, read_sparse_covariates, scaling, worth_sparse
from privatelr.design.scaling import column_groups
from privatelr.design.variables import read_values
from privatelr.formula import parse_formula
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.noise import BlockLaplace
from privatelr.privacy.noise.randomness import FloatDraw
from privatelr.sources import as_batch, declare_schema
from privatelr.types import FACTOR_SCALE

N = 1500
CITIES = list("abcd")
SCHEMA = {
    "bounds": {"age": (18, 90), "dose": (-1, 9)},
    "levels": {"smoker": ["no", "yes"], "city": CITIES, "y": [0, 1]},
}
FORMULAS = [
    "y ~ age",
    "y ~ age + dose + smoker",
    "y ~ age * smoker",
    "y ~ 0 + age + dose + city",
    "y ~ age * dose * city",
    "y ~ I(age^2) + age:dose + dose",
    "y ~ age:city + dose - 1",
    "y ~ C(city, contr.sum) * age",
    "y ~ C(smoker, contr.sum) * age + city",
]
TARGETS = [PureDP(1.0), ZCDP(0.3)]
LONG = 100.0
"""A bound on rows that none reaches."""


class NoNoiseAtAll:
    """Draws of zeros, posing as secret noise."""

    is_secret = True

    def draw(self, law):
        return FloatDraw(np.zeros(law.dimension))

    def uniforms(self, count):
        return np.full(count, 0.5)


@pytest.fixture(autouse=True)
def _own_stages(monkeypatch):
    """In so few columns pure stages have less noise; tests/test_pure_stages.py is about these."""
    own_stages(monkeypatch)


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", NoNoiseAtAll)


def people(n=N, seed=2):
    return clinic(n, seed).assign(city=np.random.default_rng(seed).choice(CITIES, n))


def fitted(formula, frame=None, *, model=dplr, eps=1.0, schema=SCHEMA, **options):
    frame = people() if frame is None else frame
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "do_scale='private': the noise on a mean has sd")
        warnings.filterwarnings("ignore", f"row_norm={LONG:g}: ")
        return model(formula, frame, eps=eps, do_scale="private", **schema, **options)


def rows_under(fit, frame):
    return read_design(fit.spec, as_batch(frame), DenseRows).x


def covariates_under(fit, frame):
    return rows_under(fit, frame)[:, int(fit.spec.columns.has_intercept) :]


def columns_of(fit, *kinds):
    groups = fit.spec.standard.groups
    kind = np.repeat([g.kind for g in groups], [g.size for g in groups])
    return np.isin(kind, kinds)


def placed_at_their_middle(fit, raw):
    """Columns without a released scale: two values at -1 and 1, others times a factor."""
    sizes = [group.size for group in fit.spec.standard.groups]
    sizes, placed = np.repeat(sizes, sizes), FACTOR_SCALE * raw
    for j in np.flatnonzero(columns_of(fit, "indicators", "product")):
        values = np.unique(np.round(raw[:, j], 12))
        if sizes[j] == 1 and len(values) == 2 and (fit.spec.standard.centred or values.sum() == 0):
            placed[:, j] = np.where(raw[:, j] > values.mean(), 1.0, -1.0)
    return placed


# -- groups of columns -----------------------------------------------------------------------------


@pytest.mark.parametrize("formula", [*FORMULAS, "y ~ city:smoker", "y ~ log(age) * city"])
def test_rows_keep_the_limits_of_their_groups(formula):
    """Values far beyond the bounds, missing ones, and all combinations of levels."""
    frame = people(4000).assign(city=lambda f: f["city"].where(f.index % 97 > 0, "elsewhere"))
    rng = np.random.default_rng(0)
    corner = rng.choice([-1e300, 18.0, 54.0, 90.0, 1e9, np.nan], 4000)
    frame["age"] = np.where(rng.random(4000) < 0.5, corner, frame["age"])
    frame["dose"] = np.where(rng.random(4000) < 0.5, rng.choice([-50, -1, 9, 4e4], 4000), 0.3)
    parsed, batch = parse_formula(formula, list(frame)), as_batch(frame)
    spec = plan_design(parsed, batch, declare_schema(**SCHEMA))
    x = read_design(spec, as_batch(frame), DenseRows).x[:, int(spec.columns.has_intercept) :]
    groups = column_groups(spec, centred=True)
    assert sum(group.size for group in groups) == x.shape[1]
    ends = np.cumsum([group.size for group in groups])[:-1]
    for group, part in zip(groups, np.hsplit(x, ends), strict=True):
        assert np.linalg.norm(part, axis=1).max() <= group.radius * (1 + 1e-12)
        assert np.abs(part).max() <= group.largest * (1 + 1e-12)
        if group.kind == "indicators":
            assert np.isclose(part, np.round(part), atol=1e-11).all()
            assert part.min() == 0
            assert 1 - 1e-11 < part.sum(axis=1).max() <= 1
        if group.kind == "number":
            assert group.size == 1
            assert np.abs(part).max() == pytest.approx(1)


# -- rows after the map ----------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_without_noise_a_typical_row_has_length_one(no_noise, formula, target):
    frame = people()
    fit = fitted(formula, frame, eps=target, row_norm=LONG)
    z = covariates_under(fit, frame)
    pure = isinstance(target, PureDP)
    shown = columns_of(fit, "number", *([] if pure else ["indicators", "product"]))
    if not shown.any():
        return
    moved = columns_of(fit, "number", *([] if pure else ["indicators"]))
    if fit.spec.standard.centred:
        assert np.abs(z[:, moved].mean(axis=0)).max(initial=0.0) < 1e-4  # the released grid
    length = float((z[:, shown] ** 2).sum(axis=1).mean())
    assert length == pytest.approx(shown.sum() if pure else 1.0, rel=1e-3)
    raw = column_by_column(fit, frame)
    placed = placed_at_their_middle(fit, raw)
    products = multiplied(fit, raw, z) if pure else {}
    for j in np.flatnonzero(~shown):
        np.testing.assert_allclose(z[:, j], products.get(j, placed[:, j]), atol=1e-11)


def multiplied(fit, raw, z):
    """Each column of products of a standardised number and levels, by its position."""
    columns, first = fit.spec.columns, int(fit.spec.columns.has_intercept)
    names = list(columns.names[first:])
    found, terms = {}, columns.terms[first:]
    for term in terms:
        alone = [t for t in terms if t.numeric == term.numeric and not t.categorical]
        levels = [t for t in terms if t.categorical == term.categorical and not t.numeric]
        if term.numeric and term.categorical and alone and levels:
            assert term.stop - term.start == levels[0].stop - levels[0].start, names
            for j, of in zip(term.columns, levels[0].columns, strict=True):
                found[j - first] = FACTOR_SCALE * z[:, alone[0].start - first] * raw[:, of - first]
    return found


@pytest.mark.parametrize("formula", ["y ~ age * city", "y ~ age * city + dose * city"])
@pytest.mark.parametrize("length", [1.0, 1.5, 3.0])
def test_products_are_cut_off_nowhere(formula, length):
    """Longer records count less, and keep the ratio of a product to its number."""
    frame = people(400)
    frame.loc[:50, "age"] = 1e12
    fit = fitted(formula, frame, row_norm=length)
    z, raw = covariates_under(fit, frame), column_by_column(fit, frame)
    products = multiplied(fit, raw, z)
    assert len(products) == (len(CITIES) - 1) * formula.count("*")
    for j, product in products.items():
        np.testing.assert_allclose(z[:, j], product, atol=1e-11)


def test_products_share_the_length_of_numbers_where_that_takes_less_noise(monkeypatch):
    sites, choice = [f"s{i}" for i in range(12)], scaling._is_beside_numbers
    frame = people(4000).assign(site=np.resize(sites, 4000))
    schema = {**SCHEMA, "levels": {**SCHEMA["levels"], "site": sites}}

    def otherwise(group, *facts):
        return choice(group, *facts) != (group.number is not None)

    for factor, size, norm in (("smoker", 1, "l2"), ("site", 11, "l1")):
        formula = f"y ~ dose + I(dose^2) + I(age^2) + age * {factor}"
        blocks = fitted(formula, frame, schema=schema).spec.blocks
        assert (blocks[-1].size, blocks[-1].norm) == (size, norm)
        with monkeypatch.context() as patched:
            patched.setattr(scaling, "_is_beside_numbers", otherwise)
            others = fitted(formula, frame, schema=schema).spec.blocks
        assert others[-1].norm != norm
        noise, more = (BlockLaplace(each, 1.0).variances[-1] for each in (blocks, others))
        assert noise < more


def column_by_column(fit, frame):
    """The covariates in scaled units, before the map of the moments."""
    text, schema = fit.spec.formula.text, declare_schema(**SCHEMA)
    spec = plan_design(parse_formula(text, list(frame)), as_batch(frame), schema)
    x = read_design(spec, as_batch(frame), DenseRows).x
    return x[:, int(spec.columns.has_intercept) :]


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_no_row_is_longer_than_the_radius(formula, target, model):
    """With real noise, which at this price moves everything, and values beyond their bounds."""
    frame = people(400)
    frame.loc[:50, "age"] = 1e12
    frame.loc[51:60, "dose"] = np.nan
    options = {"eps": PureDP(0.02) if isinstance(target, PureDP) else ZCDP(1e-5)}
    fit = fitted(formula, frame, model=model, **options)
    rows = rows_under(fit, frame)
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows, axis=1).max() <= fit.spec.radius
    assert fit.release.calibration.problem.radius == fit.spec.radius
    if "dose" in formula:
        np.testing.assert_array_equal(rows[51:61], 0.0)
    start = 0
    for block in fit.spec.blocks:
        part = rows[:, start : start + block.size]
        sizes = np.abs(part).sum(axis=1) if block.norm == "l1" else np.linalg.norm(part, axis=1)
        assert sizes.max() <= block.bound
        start += block.size
    together = [i for i, group in enumerate(fit.spec.standard.groups) if group.kind == "number"]
    if fit.spec.blocks and together:
        first = int(fit.spec.columns.has_intercept)
        bound = next(block.bound for block in fit.spec.blocks if block.norm == "l2")
        numbers = rows[:, first:][:, columns_of(fit, "number")]
        assert np.linalg.norm(numbers, axis=1).max() <= bound


def test_rows_of_an_svm_have_length_one(no_noise):
    frame = people()
    fit = fitted("y ~ age * smoker + city", frame, model=dpsvm, eps=ZCDP(0.3))
    z = covariates_under(fit, frame)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1.0, rtol=1e-11)
    # a bound of the user's own is one on longer rows alone
    held = fitted("y ~ age * smoker + city", frame, model=dpsvm, eps=ZCDP(0.3), row_norm=1.0)
    lengths = np.linalg.norm(covariates_under(held, frame), axis=1)
    assert lengths.max() <= 1
    assert lengths.min() < 0.9


def test_a_number_is_centred_and_scaled_by_what_was_released(no_noise):
    frame = people()
    fit = fitted("y ~ age + dose", frame, eps=ZCDP(0.3), row_norm=LONG)
    released, calibration = fit.release.scale.values, fit.release.scale.calibration
    scaled = (frame["age"] - 54) / 36
    assert released[0] == pytest.approx(scaled.mean(), abs=1e-4)
    assert released[2] == pytest.approx(1.66 * (scaled**2).mean(), abs=1e-4)
    table = frame[["age", "dose"]].to_numpy() @ np.diag([1 / 36, 1 / 5])
    v = table.var(axis=0)
    a = (v + 0.003 + calibration.mean_sd) ** -0.5
    expected = (table - table.mean(axis=0)) * a / np.sqrt(v @ a**2)
    np.testing.assert_allclose(covariates_under(fit, frame), expected, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_record_that_cannot_be_used_counts_as_the_middle_of_all_bounds(no_noise, target):
    """The table is over all records, and so its words on the card and in the documentation say."""
    frame = people()
    frame.loc[:299, "dose"] = np.nan
    frame.loc[300:349, "age"] = 1e9  # clipped, and used
    fit = fitted("y ~ age + dose + smoker", frame, eps=target)
    unused = frame["dose"].isna()
    held = frame[["age", "dose"]].clip([18, -1], [90, 9], axis=1)
    held.loc[unused, ["age", "dose"]] = 54.0, 4.0
    np.testing.assert_allclose(fit.scale.loc[["age", "dose"], "mean"], held.mean(), rtol=1e-3)
    np.testing.assert_allclose(fit.scale.loc[["age", "dose"], "sd"], held.std(), rtol=1e-2)
    if isinstance(target, ZCDP):
        smokes = (frame["smoker"] == "yes") & ~unused
        share = fit.scale["mean"].drop(["age", "dose"]).item()
        assert share == pytest.approx(smokes.mean(), rel=1e-2)
    told = "one that could not be used counts as the middle of the bounds of every column"
    assert f"over all {N} records; {told}" in str(fit.card())
    assert told in " ".join(type(fit).scale.__doc__.split())


# -- predictions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_predictions_are_those_of_the_coefficients_in_the_users_units(formula, target):
    frame = people()
    fit = fitted(formula, frame, eps=target, row_norm=LONG)
    values, _ = read_values(fit.spec.variables, as_batch(frame), fit.spec.formula.covariates)
    raw, _ = raw_design(fit.spec, values, len(frame))
    by_hand = raw @ np.asarray(fit.coef)
    np.testing.assert_allclose(fit.predict(frame, type="link"), by_hand, atol=1e-9)
    # and of the rows that the fit saw
    np.testing.assert_allclose(by_hand, rows_under(fit, frame) @ fit.release.coef, atol=1e-9)


@pytest.mark.parametrize("model", [dplr, dpsvm])
def test_predictions_for_a_record_do_not_depend_on_the_others(model):
    frame, view = people(), "link" if model is dplr else "margins"
    fit = fitted("y ~ age * city + dose", frame, model=model, eps=ZCDP(0.3))
    whole = np.asarray(fit.predict(frame, type=view))
    part = np.asarray(fit.predict(frame.iloc[700:703], type=view))
    np.testing.assert_array_equal(part, whole[700:703])


def test_a_fit_finds_what_is_there(no_noise):
    """Without noise and with hardly any penalty: the coefficients of the plain fit."""
    frame = people(4000)
    link = -3 + 0.05 * frame["age"] + 0.4 * frame["dose"] - 1.0 * (frame["smoker"] == "yes")
    rng = np.random.default_rng(0)
    frame["y"] = (rng.random(4000) < 1 / (1 + np.exp(-link))).astype(int)
    formula = "y ~ age + dose + smoker"
    fit = fitted(formula, frame, op=False, eps=ZCDP(5e3), lambda_=1e-4, row_norm=3)
    plain = dplr(formula, frame, eps=0, lambda_=1e-9, **SCHEMA)
    np.testing.assert_allclose(fit.coef, plain.coef, rtol=0.02)


# -- wide, sparse and Dask -------------------------------------------------------------------------


def wide(n=900):
    rng = np.random.default_rng(5)
    places = [f"p{i}" for i in range(90)]
    frame = pd.DataFrame({"place": rng.choice(places[:70], n), "age": rng.uniform(18, 90, n)})
    frame["y"] = rng.integers(0, 2, n)
    return frame, {"bounds": {"age": (18, 90), "y": (0, 1)}, "levels": {"place": places}}


@pytest.mark.parametrize("model", [dplr, dpsvm])
def test_rows_of_wide_factors_are_scaled_and_not_centred(no_noise, model):
    frame, schema = wide()
    options = {"eps": ZCDP(0.3), "schema": schema, "model": model}
    fit = fitted("y ~ place + age", frame, row_norm=LONG if model is dplr else None, **options)
    assert worth_sparse(fit.spec)
    assert not fit.spec.standard.centred
    batch = as_batch(frame)
    z, usable, _ = read_sparse_covariates(fit.spec, batch, fit.spec.formula.covariates)
    assert sparse.issparse(z)
    assert usable.all()
    assert z.nnz <= 2 * len(frame)
    lengths = z.power(2).sum(axis=1)
    assert lengths.mean() == pytest.approx(1.0, rel=1e-2 if model is dplr else 1e-9)
    view = "link" if model is dplr else "margins"
    intercept = np.full((len(frame), 1), fit.spec.intercept)
    by_hand = np.hstack([intercept, z.toarray()]) @ fit.release.coef
    np.testing.assert_allclose(fit.predict(frame, type=view), by_hand, atol=1e-9)


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_dask_collection_gets_the_scale_of_a_frame(monkeypatch, model, target):
    dask = pytest.importorskip("dask", reason="needs the extra [dask]")
    frames = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", NoNoiseAtAll)
    frame, formula = people(600), "y ~ age * smoker + dose"
    with dask.config.set(scheduler="synchronous"):
        parts = frames.from_pandas(frame, npartitions=4)
        found = fitted(formula, parts, model=model, eps=target)
    expected = fitted(formula, frame, model=model, eps=target)
    np.testing.assert_array_equal(found.release.scale.values, expected.release.scale.values)
    np.testing.assert_allclose(found.release.coef, expected.release.coef, atol=1e-10)
    view = "link" if model is dplr else "margins"
    np.testing.assert_allclose(
        found.predict(frame, type=view), expected.predict(frame, type=view), atol=1e-10
    )


# -- by default ------------------------------------------------------------------------------------

LARGE = 4000
"""A number of records with which the noise on the means is small at epsilon = 1."""
LEFT_OUT = {
    "row_norm": {"row_norm": 1.0},
    "projection": {"rp_dim": 2},
    "own shares": {"spend": {"coefficients": 0.7, "inference": 0.3}},
    "all for the coefficients": {"spend": {"coefficients": 1}},
    "cms11": {"analysis": "cms11"},
    "plain": {"eps": 0},
    "no": {"do_scale": False},
    "unbounded": {"bounds": {"age": (18, 90)}},
}
USED = {
    "pure": {},
    "delta": {"delta": 1e-6},
    "zCDP": {"eps": ZCDP(0.3)},
    "inference": {"spend": "inference"},
    "output": {"op": False},
    "one-log": {"analysis": "one-log"},
    "its own share": {"spend": {"scale": 0.2, "coefficients": 0.8}},
}


def by_default(model=dplr, n=LARGE, formula="y ~ age + dose + smoker", **options):
    declared = {"bounds": SCHEMA["bounds"], "levels": SCHEMA["levels"]}
    return model(formula, people(n), **{**declared, **options})


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize("options", USED.values(), ids=USED)
def test_a_large_table_is_scaled_by_default(model, options):
    fit = by_default(model, **options)
    assert fit.scale is not None
    assert fit.spec.bound_source == "private scale"


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize("options", LEFT_OUT.values(), ids=LEFT_OUT)
@pytest.mark.filterwarnings("ignore::privatelr.SchemaWarning")
def test_the_scale_is_left_out_where_something_else_was_asked_for(model, options):
    fit = by_default(model, **options)
    assert fit.scale is None
    assert fit.spec.standard is None
    if options.keys().isdisjoint(["eps", "spend"]):
        assert fit.calibration.target == PureDP(1.0)  # the coefficients have the whole price


@pytest.mark.parametrize("model", [dplr, dpsvm])
def test_the_scale_of_a_sparse_matrix_is_left_out(model):
    frame = people(LARGE)
    x = sparse.csr_array(frame[["age", "dose"]].to_numpy() / 90)
    assert model(frame["y"], x, levels={"y": [0, 1]}).scale is None


@pytest.mark.parametrize("formula", ["y ~ smoker", "y ~ 1", "y ~ age:smoker"])
def test_formulas_without_a_column_to_scale_are_fitted_without(formula):
    assert by_default(formula=formula).scale is None


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize(
    ("target", "largest"),
    [(PureDP(1.0), 0.04), (ZCDP(0.01), 0.1), (ApproxDP(1.0, 1e-6), 0.1)],
    ids=["pure", "zCDP", "approximate"],
)
def test_it_is_left_out_where_its_noise_is_large(model, target, largest):
    """The noise is asked of fits of as many records; it is one over their number."""
    some = by_default(model, LARGE, eps=target, do_scale="private").release.scale.calibration
    least = LARGE * some.mean_sd / largest
    enough, few = (math.ceil(share * least) for share in (1.02, 0.98))
    scaled = by_default(model, enough, eps=target)
    assert scaled.release.scale.calibration.mean_sd == pytest.approx(largest, rel=0.03)
    assert by_default(model, few, eps=target).scale is None
    # a call that asks for it gets it all the same
    asked = by_default(model, few, eps=target, do_scale="private")
    assert asked.release.scale.calibration.mean_sd > largest


@pytest.mark.parametrize("model", [dplr, dpsvm])
@pytest.mark.parametrize("n", [150, LARGE])
def test_the_default_releases_what_was_asked_for_by_name(monkeypatch, model, n):
    """With or without a scale: the same noise then gives the same coefficients."""
    used = "private" if n == LARGE else False
    with fixed_noise(monkeypatch):
        found, asked = by_default(model, n), by_default(model, n, do_scale=used)
    assert (found.scale is None) == (used is False)
    np.testing.assert_array_equal(found.release.coef, asked.release.coef)
    assert found.calibration == asked.calibration
    assert found.guarantee == asked.guarantee == PureDP(1.0)


@pytest.mark.parametrize(
    ("share", "columns", "asked"),
    [
        ("10 % of epsilon", "2 columns", {"spend": "inference"}),
        (
            "20 % of rho",
            "3 columns",
            {"eps": ZCDP(0.3), "spend": {"scale": 0.2, "coefficients": 0.8}},
        ),
    ],
)
def test_pages_say_which_share_of_the_price_the_scale_cost(share, columns, asked, tmp_path):
    formula = "y ~ age + dose + smoker"
    fit = fitted(formula, **asked)
    fit.save(tmp_path / "fit.json")
    summary = fit.summary()
    pages = [summary.as_text(), summary.as_html(), fit.card(), fit.card("html")]
    pages.append(str(load(tmp_path / "fit.json")))
    pages.append(str(plan(formula, N, **asked, do_scale="private", **SCHEMA)))
    noise = f"noise of sd {fit.release.scale.calibration.mean_sd:.3g} on a mean"
    for page in pages:
        words = " ".join(page.split())
        assert f"{share} for means and standard deviations of {columns}, with " in words
        assert noise in words


ASKED_FOR = [{"do_scale": "private"}, {"spend": {"scale": 0.1, "coefficients": 0.9}}]


@pytest.mark.parametrize("model", [dplr, partial(dpsvm, loss="huber")])
@pytest.mark.parametrize("asked", ASKED_FOR, ids=str)
def test_a_published_analysis_pays_for_a_scale_that_was_asked_for(model, asked):
    """The price that follows from all the noise is that of both stages, and not of one."""
    fit = by_default(model, analysis="cms11", **asked)
    assert fit.calibration.analysis == "cms11"
    scale, coefficients = fit.release.scale.calibration, fit.calibration
    assert achieved_scale(scale).epsilon == pytest.approx(scale.target.epsilon, rel=1e-9)
    assert achieved(coefficients).epsilon == pytest.approx(coefficients.target.epsilon, rel=1e-9)
    parts = [coefficients, *(part.calibration for part in fit.release.parts.values())]
    assert scale.target.epsilon == 0.1
    assert math.fsum(part.target.epsilon for part in parts) == pytest.approx(1.0, rel=1e-9)
    frame = people(LARGE)
    other = frame.assign(age=[90.0, *frame["age"][1:]], dose=[9.0, *frame["dose"][1:]])
    assert audit.privacy_loss(fit, frame, other).holds
    alone = by_default(model, analysis="cms11")
    assert achieved(alone.calibration).epsilon == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("model", [dplr, dpsvm])
def test_a_published_analysis_gives_what_was_published(monkeypatch, model):
    """By default it is that of declared rows, to the last bit."""
    with fixed_noise(monkeypatch):
        found = by_default(model, analysis="cms11")
        expected = by_default(model, analysis="cms11", do_scale=False, row_norm=None)
    np.testing.assert_array_equal(found.release.coef, expected.release.coef)
    assert found.calibration == expected.calibration
    assert found.calibration.problem.radius == pytest.approx(math.sqrt(3 + 0.25))


@pytest.mark.parametrize(
    "asked",
    [
        {"bounds": {"X0": (0, 1), "X1": (0, 1), "y": (0, 1)}},
        {"do_scale": "private"},
        {"spend": {"scale": 0.1, "coefficients": 0.9}},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_a_sparse_matrix_gets_a_scale_as_the_frame_that_its_refusal_names(asked):
    frame = people(LARGE)
    matrix = sparse.csr_array((frame[["age", "dose"]].to_numpy() > 40) * 0.5)
    with pytest.raises((SchemaError, ArgumentError)) as refused:
        dplr(frame["y"], matrix, **{"bounds": {"y": (0, 1)}, **asked})
    code = "pandas.DataFrame.sparse.from_spmatrix(X).add_prefix('X')"
    assert f"; {code} takes bounds= and is scaled." in str(refused.value)
    named = eval(code, {"pandas": pd, "X": matrix})
    assert [*named] == ["X0", "X1"]
    declared = {"bounds": {"X0": (0, 1), "X1": (0, 1), "y": (0, 1)}}
    assert dplr(frame["y"], named, **{**asked, **declared}).scale is not None
    # values beyond the bounds, zeros included, are cut off as everywhere
    outside = {"bounds": {"X0": (0.25, 1), "X1": (0.25, 1), "y": (0, 1)}}
    fit = dplr(frame["y"], named, **outside, do_scale="private")
    dense = dplr(frame["y"], named.sparse.to_dense().clip(0.25, 1), **outside, do_scale="private")
    assert fit.spec.radius == dense.spec.radius
    np.testing.assert_allclose(rows_of_matrix(fit, named), rows_of_matrix(fit, named.clip(0.25)))


def rows_of_matrix(fit, frame):
    return read_design(fit.spec, as_batch(frame.assign(y=0)), DenseRows).x


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "target", "words"),
    [
        ("y ~ smoker", PureDP(1.0), "takes a number among the covariates under pure epsilon"),
        ("y ~ age:smoker", PureDP(1.0), "takes a number among the covariates"),
        ("y ~ 1", PureDP(1.0), "takes a number"),
        ("y ~ 1", ZCDP(1.0), "takes a covariate"),
    ],
)
@pytest.mark.parametrize("model", [dplr, dpsvm])
def test_formulas_without_a_column_to_scale_are_refused(formula, target, words, model):
    with pytest.raises(SchemaError, match=f"^do_scale='private': {words}.*take do_scale=False"):
        fitted(formula, model=model, eps=target)


def test_variables_without_bounds_are_refused():
    with pytest.raises(SchemaError, match=r"takes bounds= for every variable, and 'dose' has none"):
        fitted("y ~ age + dose", schema={"bounds": {"age": (18, 90), "y": (0, 1)}})


# -- factors of two levels under a pure promise ----------------------------------------------------


@pytest.mark.parametrize("how", ["contr.sum", "contr.helmert", "contr.poly"])
@pytest.mark.parametrize("formula", ["y ~ {} + age", "y ~ city + age + {}"])
def test_the_noise_on_a_difference_of_two_levels_does_not_depend_on_the_coding(formula, how):
    """Without inference the limit on the noise is that of the difference of the two levels."""
    by_treatment = fitted(formula.format("smoker"), row_norm=LONG)
    found = fitted(formula.format(f"C(smoker, {how})"), row_norm=LONG)
    place = next(i for i, name in enumerate(found.coef.index) if "smoker" in name)
    values = np.unique(rows_under(found, people())[:, place])
    np.testing.assert_allclose(values, [-1, 1], atol=1e-12)
    assert found.spec.blocks == by_treatment.spec.blocks
    step = {"contr.sum": 2, "contr.helmert": 2, "contr.poly": math.sqrt(2)}[how]
    limits = [fit.privacy_sd_limit.iloc[place] for fit in (found, by_treatment)]
    assert step * limits[0] == pytest.approx(limits[1])


def test_a_column_of_three_values_keeps_its_factor():
    """A treatment coding times a sum coding has 0 besides -1 and 1."""
    frame = people().assign(sick=lambda f: f["y"] > 0)
    fit = fitted("y ~ sick * C(smoker, contr.sum) + age", frame)
    places = {(group.middle, group.factor) for group in fit.spec.standard.groups[:3]}
    assert [group.size for group in fit.spec.standard.groups] == [1, 1, 1, 1]
    assert places == {(0.5, 2.0), (0.0, 1.0), (0.0, 2.0)}
    assert "those of two levels at -1 and 1" in " ".join(str(fit).split())


def test_without_an_intercept_columns_are_placed_where_that_moves_none():
    frame = people()
    fit = fitted("y ~ 0 + city + age + C(smoker, contr.sum)", frame, row_norm=LONG)
    np.testing.assert_allclose(np.unique(rows_under(fit, frame)[:, -1]), [-1, 1], atol=1e-12)
    treated = rows_under(fitted("y ~ 0 + city + age + smoker", frame, row_norm=LONG), frame)[:, -1]
    np.testing.assert_allclose(np.unique(treated), [0, 2], atol=1e-12)


# -- a share without a scale, and one that buys only noise -----------------------------------------


@pytest.mark.parametrize(
    ("model", "do_scale"),
    [(dplr, False), (dplr, True), (dpsvm, False), (partial(plan, n=N), False)],
)
def test_a_share_for_a_scale_that_is_left_out_is_refused(model, do_scale):
    asked = {"do_scale": do_scale, "spend": {"scale": 0.1, "coefficients": 0.9}, **SCHEMA}
    data = () if isinstance(model, partial) else (people(),)
    with pytest.raises(
        ArgumentError, match=rf"^do_scale={do_scale} and spend=\{{'scale': ...\}}: "
    ):
        model("y ~ age", *data, **asked)


@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.3), ApproxDP(1.0, 1e-6)], ids=str)
def test_a_scale_that_is_all_noise_is_named(target):
    """By public facts alone: other data of the same size get the same words."""
    words = r"^do_scale='private': .*noise on a mean .* take do_scale=False\.$"
    asked = {"spend": {"scale": 1e-6, "coefficients": 1 - 1e-6}, "eps": target, **SCHEMA}
    frame, told = people(), []
    for data in (frame, frame.assign(age=18.0, dose=np.nan)):
        with pytest.warns(SchemaWarning, match=words) as seen:
            dplr("y ~ age", data, **asked)
        told.append([str(one.message) for one in seen])
    assert told[0] == told[1]
    assert len(told[0]) == 1


def test_a_scale_that_resolves_columns_is_not_named():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = dplr("y ~ age", people(), do_scale="private", **SCHEMA)
    assert fit.release.scale.calibration.mean_sd < 0.2


@pytest.mark.parametrize("model", [dplpsvm, dpsimplex])
def test_fits_by_choices_have_no_scale(model):
    frame = people(200)
    assert model("y ~ age + dose", frame, **SCHEMA).scale is None
