"""Law 26: a column without bounds takes nothing from columns that have them.

Bounded terms keep their blocks, the unbounded ones have one length together, and no row is
beyond either, exactly and whatever it holds: dense, sparse, by partitions, and in a prediction.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from broken_mechanisms import calibrated
from frames_for_laws import clinic
from hypothesis import given, settings
from hypothesis import strategies as st

import privatelr.numerics.rows.row_bounds
import privatelr.numerics.rows.sparse_rows
from privatelr import PrivacyWarning, SchemaWarning, audit, dplr, dpsvm
from privatelr.audit.density.exact import tilt_losses
from privatelr.audit.density.loss import search
from privatelr.audit.density.pairs import pair_of_rows, row_size
from privatelr.design import (
    plan_design,
    read_dask_design,
    read_dask_source,
    read_design,
    read_sparse,
)
from privatelr.formula import parse_formula
from privatelr.numerics import LOSSES, Huber
from privatelr.numerics.rows import DaskRows, DenseRows, sparse_backend
from privatelr.privacy import PureDP
from privatelr.privacy.noise import BlockLaplace, SphericalLaplace, mean_square
from privatelr.sources import as_batch, declare_schema
from privatelr.types import Block, euclidean_part

Y = {"y": [0, 1]}
BOUNDS, LEVELS = {"age": (18, 90)}, {"smoker": ["no", "yes"], "site": list("abc"), **Y}
TERMS = ["age", "dose", "smoker", "site", "u", "age:dose", "u:smoker", "site:dose", "tanh(u)"]
HUGE = [1e300, -1e300, 5e-324, -0.0, 1e160, -1e-160, math.inf, math.nan, 3.0, -1.0]
VALUE = st.one_of(st.sampled_from(HUGE), st.floats(-3, 3), st.floats(allow_subnormal=True))
RECORDS = st.tuples(
    VALUE, VALUE, VALUE, st.sampled_from(["no", "yes", "maybe"]), st.sampled_from("abcd")
)
PLANS = st.tuples(
    st.permutations(TERMS).flatmap(lambda t: st.integers(2, 6).map(lambda n: t[:n])),
    st.sampled_from(["", " - 1"]),
    st.sampled_from([None, 0.3, 1.0, 7.0]),
    st.sampled_from([0.25, 1.0]),
)


def planned(terms, end="", row_norm=None, scale=1.0):
    names = ["y", "age", "dose", "u", "smoker", "site"]
    frame = pd.DataFrame({name: pd.Series(dtype=float) for name in names})
    frame = frame.astype({"smoker": object, "site": object})
    formula = parse_formula(f"y ~ {' + '.join(terms)}{end}", names)
    return plan_design(formula, as_batch(frame), declare_schema(BOUNDS, LEVELS, row_norm, scale))


def table(records):
    frame = pd.DataFrame(records, columns=["age", "dose", "u", "smoker", "site"])
    return frame.assign(y=np.arange(len(frame)) % 2.0)


def mixed(spec):
    return bool(spec.unbounded) and len(spec.unbounded) < len(spec.columns.terms) - (
        spec.intercept is not None
    )


def dense_rows(spec, frame):
    return read_design(spec, as_batch(frame), DenseRows).x


def sparse_rows(spec, frame):
    limits = {"bound": spec.bound, "intercept": spec.intercept, "projection": None}
    return sparse_backend(
        *read_sparse(spec, as_batch(frame)), **limits, blocks=spec.blocks
    ).x.toarray()


def check_within(spec, rows):
    """In fractions: no row is longer than R, and none is beyond a block."""
    ball = euclidean_part(spec.blocks)
    for row in rows:
        entries = [Fraction(entry) for entry in row.tolist()]
        assert sum(entry**2 for entry in entries) <= Fraction(spec.radius) ** 2
        if ball is not None:
            columns, bound = ball
            assert sum(entries[column] ** 2 for column in columns) <= Fraction(bound) ** 2
        start = 0
        for block in spec.blocks:
            size = sum(map(abs, entries[start : start + block.size]))
            assert block.norm == "l2" or size <= Fraction(block.bound)
            start += block.size


# -- rows ---------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(PLANS, st.lists(RECORDS, min_size=1, max_size=6))
def test_no_row_is_beyond_its_length_or_its_blocks(plan, records):
    spec, frame = planned(*plan), table(records)
    for read in (dense_rows, sparse_rows):
        rows = read(spec, frame)
        check_within(spec, rows)
        for at in range(len(frame)):  # whatever stands around it
            np.testing.assert_array_equal(read(spec, frame[at : at + 1])[0], rows[at])
    np.testing.assert_allclose(rows, dense_rows(spec, frame), rtol=1e-9, atol=1e-150)
    norms = {block.norm for block in spec.blocks}
    assert ("l2" in norms) == mixed(spec)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(PLANS.filter(lambda plan: mixed(planned(*plan))), st.lists(RECORDS, min_size=1, max_size=4))
def test_bounded_columns_are_those_of_a_design_without_the_others(plan, records):
    """To what rounding may take: whatever values the unbounded columns hold."""
    spec, frame = planned(*plan), table(records)
    columns, _ = euclidean_part(spec.blocks)
    others = np.setdiff1d(np.arange(spec.d), columns)
    calm = frame.assign(dose=frame["dose"].where(~np.isfinite(frame["dose"]), 0.0))
    calm["u"] = calm["u"].where(~np.isfinite(calm["u"]), 0.0)
    rows, expected = dense_rows(spec, frame), dense_rows(spec, calm)
    bounded_of_u = [at for at in others if "tanh(u)" in spec.columns.names[at]]
    kept = np.setdiff1d(others, bounded_of_u)
    usable = rows.any(axis=1) == expected.any(axis=1)
    np.testing.assert_allclose(rows[usable][:, kept], expected[usable][:, kept], rtol=2.0**-38)


def test_partitions_give_the_same_rows():
    dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
    rng = np.random.default_rng(0)
    frame = clinic(n=50).assign(u=10.0 ** rng.uniform(-3, 9, 50), site=rng.choice(list("abc"), 50))
    spec = planned(["u", "age", "site:dose", "smoker"], row_norm=2.0)
    text, data = read_dask_source("y ~ age", dd.from_pandas(frame, npartitions=3), None)
    assert text == "y ~ age"
    parts = read_dask_design(spec, data, DaskRows, bar=False)
    (found,) = parts.fold(lambda x, y: (x.T @ x,))
    expected = read_design(spec, as_batch(frame), DenseRows)
    np.testing.assert_allclose(found, expected.x.T @ expected.x, rtol=1e-12, atol=1e-14)
    assert (parts.radius, parts.blocks) == (expected.radius, expected.blocks)


def test_a_prediction_shortens_as_the_fit_did():
    frame = clinic(n=60).assign(u=np.linspace(-1e6, 1e6, 60))
    fit = dplr(
        "y ~ u + age + dose:smoker", frame, bounds=BOUNDS, levels={"smoker": ["no", "yes"], **Y}
    )
    assert fit.spec.unbounded == ("u", "dose:smoker")
    link = fit.predict(frame, type="link").to_numpy()
    rows = read_design(fit.spec, as_batch(frame), DenseRows).x
    np.testing.assert_allclose(rows @ fit.release.coef, link, rtol=1e-9, atol=1e-12)
    for at in range(len(frame)):
        assert fit.predict(frame[at : at + 1], type="link").iloc[0] == link[at]


@pytest.mark.parametrize("bug", ["not shortened", "each by itself", "not in sparse rows"])
def test_planted_rows_beyond_a_block_are_caught(monkeypatch, bug):
    spec = planned(["u", "age", "dose", "smoker"])
    frame = table([(40.0, 3.0, 4.0, "no", "a"), (90.0, -1e9, 1e9, "yes", "b")])
    limits = privatelr.numerics.rows.row_bounds
    if bug == "not shortened":
        monkeypatch.setattr(limits, "together_of", lambda blocks, intercept: None)
    elif bug == "each by itself":
        monkeypatch.setattr(limits, "_shortened", lambda x, bound: x.clip(-bound, bound))
    else:
        monkeypatch.setattr(privatelr.numerics.rows.sparse_rows, "_shorten_some", lambda *_: None)
    read = sparse_rows if "sparse" in bug else dense_rows
    with pytest.raises(AssertionError):
        check_within(spec, read(spec, frame))


def test_planted_radius_without_the_unbounded_columns_is_caught():
    spec = planned(["u", "age", "dose", "smoker"])
    frame = table([(90.0, 3.0, 4.0, "yes", "a")])
    check_within(spec, dense_rows(spec, frame))

    class Narrow:
        blocks, radius = (), math.sqrt(2 + spec.intercept**2)

    with pytest.raises(AssertionError):
        check_within(Narrow, dense_rows(spec, frame))


# -- what is planned ----------------------------------------------------------------------------


def test_interactions_with_an_unbounded_variable_belong_to_it():
    spec = planned(["dose", "age", "age:dose", "site", "u:smoker"], row_norm=3.0)
    assert spec.columns.names[0] == "(Intercept)"
    norms = {}
    start = 0
    for term, block in zip(spec.columns.terms, spec.blocks, strict=True):
        assert len(term.columns) == block.size
        assert term.columns == tuple(range(start, start + block.size))
        norms[term.label] = (block.norm, block.bound if block.norm == "l2" else None)
        start += block.size
    together, apart = ("l2", 3.0), ("l1", None)
    assert norms == {
        "(Intercept)": apart,
        "dose": together,
        "age": apart,
        "site": apart,
        "age:dose": together,
        "u:smoker": together,
    }
    assert spec.radius == pytest.approx(math.sqrt(1 + 1 + 1 + 9))


@pytest.mark.parametrize("row_norm", [None, 2.0])
def test_where_all_or_none_have_bounds_the_length_is_of_whole_rows(row_norm):
    """Where all columns have bounds or none has, a length is of all of them."""
    for terms in (["age", "site", "smoker"], ["dose", "u"], ["u:smoker"], ["age"]):
        spec = planned(terms, row_norm=row_norm)
        assert spec.unbounded_norm is None
        assert all(block.norm == "l1" for block in spec.blocks)
        assert spec.blocks or spec.unbounded
        assert spec.as_whole_rows() is spec


def test_columns_that_are_mixed_or_scaled_by_the_data_are_shortened_as_whole_rows():
    fit = dplr("y ~ age + dose", clinic(), bounds=BOUNDS, levels=Y, row_norm=2.0, rp_dim=2)
    with pytest.warns(PrivacyWarning):
        scaled = dplr(
            "y ~ age + dose", clinic(), bounds=BOUNDS, levels=Y, row_norm=2.0, do_scale=True
        )
    for spec in (fit.spec, scaled.spec):
        assert (spec.bound, spec.bound_source, spec.blocks) == (2.0, "row_norm", ())


def test_one_forgotten_bound_costs_one_column():
    """Not a ball for all: the others keep the noise that they have beside it."""
    names = [f"x{at}" for at in range(9)]
    frame = pd.DataFrame({name: np.linspace(-1, 1, 40) for name in names})
    frame["y"] = np.arange(40) % 2 == 1
    bounds = {name: (-1, 1) for name in names}
    full = dplr("y ~ .", frame, bounds=bounds).calibration
    bounds.pop("x4")
    with pytest.warns(SchemaWarning, match="'x4'"):
        fit = dplr("y ~ .", frame, bounds=bounds)
    noise, problem = fit.calibration.noise, fit.calibration.problem
    assert isinstance(noise, BlockLaplace)
    assert problem.radius == pytest.approx(full.problem.radius, rel=1e-9)
    # an interval of the same length is a ball and a block
    np.testing.assert_allclose(noise.variances, full.noise.variances, rtol=1e-9)
    spherical = SphericalLaplace(problem.d, noise.rate / problem.radius)
    assert mean_square(noise) < 0.6 * mean_square(spherical)


# -- privacy ------------------------------------------------------------------------------------


SHAPE = (Block(1, 0.5), Block(2, 0.8, "l2"), Block(2, 1.0), Block(1, 0.8, "l2"))
RADIUS = math.sqrt(0.25 + 0.64 + 1.0)
HINGE, BEND = Huber(0.5), 0.5 + 1e-7
"""A margin of this size has the whole slope on either side of zero, and no curvature below it."""


def for_rows(blocks=SHAPE, radius=RADIUS, loss=HINGE):
    d, kinds = sum(block.size for block in blocks), (BlockLaplace,)
    return calibrated(PureDP(1.0), loss=loss, radius=radius, d=d, blocks=blocks, kinds=kinds)


@pytest.mark.parametrize("loss", [LOSSES["logistic"], Huber(0.5)], ids=["logistic", "huber"])
def test_the_exact_loss_is_attained_and_not_exceeded(loss):
    found = search(for_rows(loss=loss), np.random.default_rng(0), 2).loss
    assert (0.95 if loss.joint_factor else 0.9999) < found.tilt_ratio <= 1 + 1e-9
    assert found.ratio <= 1 + 1e-9


def attacked(calibration, row):
    """The exact loss between a record and its opposite, where both have the whole slope."""
    old = np.asarray(row)
    pair = pair_of_rows(-old[None], np.array([2.0]), old, -old)
    w = BEND * old / float(old @ old)
    (found,) = tilt_losses(pair, calibration.problem, calibration.noise, w[None])
    return abs(float(found))


CORNER = [0.5, 0.8 / math.sqrt(3), 0.8 / math.sqrt(3), 1.0, 0.0, 0.8 / math.sqrt(3)]


def test_planted_noise_for_other_rows_is_caught():
    honest = for_rows()
    assert row_size(honest, np.array(CORNER)) == pytest.approx(1)
    assert 0.98 < attacked(honest, CORNER) <= 1 + 1e-9
    # sums of sizes, where it is the length that rows are held to
    wrong = tuple(replace(block, norm="l1") for block in SHAPE)
    assert attacked(for_rows(wrong), CORNER) > 1.1
    # a length for each of the terms, or for none of them
    long = [0.5, 0.8, 0.0, 1.0, 0.0, 0.8]
    assert row_size(honest, np.array(long)) > 1.4
    assert attacked(honest, long) > 1.3


@pytest.mark.slow
def test_planted_radius_without_the_unbounded_block_is_caught():
    """The penalty is free for shorter rows only, so the curvature costs more than was paid."""
    blocks = (Block(1, 0.5), Block(2, 3.0, "l2"))
    right = for_rows(blocks, math.hypot(0.5, 3.0), LOSSES["logistic"])
    wrong = for_rows(blocks, 0.5, LOSSES["logistic"])
    honest = replace(wrong, problem=replace(wrong.problem, radius=right.problem.radius))
    assert search(right, np.random.default_rng(0), 2).loss.holds
    assert not search(honest, np.random.default_rng(0), 2).loss.holds


def test_two_tables_of_a_formula_are_told_apart_no_better_than_claimed():
    """From frames to the exact loss, at records as far out as values go."""
    frame = clinic(n=30).assign(age=90.0, dose=1e9, u=-2e300, y=0.0)
    other = frame.copy()
    other.loc[0, "y"] = 1.0
    fit = dpsvm("y ~ u + age + dose", frame, loss="huber", bounds=BOUNDS, levels=Y, lambda_=10.0)
    assert isinstance(fit.calibration.noise, BlockLaplace)
    row = read_design(fit.spec, as_batch(frame), DenseRows).x[0]
    found = audit.privacy_loss(fit, frame, other, output=BEND * row / float(row @ row))
    assert 0.999 < found.tilt_ratio <= 1 + 1e-9
    assert found.ratio <= 1 + 1e-9
