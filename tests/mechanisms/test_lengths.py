"""The released length of rows: what it counts, what one record moves, and what it costs."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import privatelr.mechanisms.stages.lengths as stage
from privatelr import ZCDP, ApproxDP, GuaranteeError, PureDP, ReleaseFileError, dplr, load, plan
from privatelr.mechanisms import Problem, Request, calibrate_all, read_spend
from privatelr.mechanisms.range_selection import WIDTH, scores_of_high
from privatelr.mechanisms.registry import shares_of
from privatelr.mechanisms.stages.lengths import (
    LENGTH_GRID,
    calibrate_lengths,
    counts_of_lengths,
    longer_records,
    release_length,
)
from privatelr.mechanisms.stages.scale import ScaleFacts
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import DenseRows, LooseRows, RowBounds, SparseRows
from privatelr.privacy.accounting.agreement import implied
from privatelr.privacy.events import BoundedRangeEvent, GaussianEvent, TiltEvent
from privatelr.privacy.noise import SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.privacy.noise.gaussian_delta import log_delta_beside_pure, tilt_log_delta
from privatelr.results.release_files import content_hash, restore
from privatelr.types import Block, ColumnGroup

BOUNDS = RowBounds(1.0, None, weighted=True)
TARGETS = [PureDP(0.3), PureDP(4.0), ZCDP(0.05), ApproxDP(0.2, 1e-6), ApproxDP(3.0, 1e-7)]
LOGISTIC = LOSSES["logistic"]


def same(covariates):
    return covariates


def rows_of(lengths, owners=None, persons=None):
    """Rows of one covariate; records of a person weigh one over their number."""
    lengths = np.array(lengths, dtype=float)
    labels = np.ones(len(lengths))
    if owners is not None:
        labels = np.sqrt(np.bincount(owners, minlength=persons)[owners])
    loose = LooseRows(lengths[:, None].copy(), labels, 1, max(len(lengths), 1))
    return replace(loose, persons=persons)


def longer_than(rows):
    """Count the records that are longer than each candidate from 1 on; shorter ones are as 1."""
    slots = counts_of_lengths(rows, same, BOUNDS)
    return slots[::-1].cumsum()[::-1][4::2]


def test_records_are_counted_by_their_length():
    lengths = [0.0, 0.5, 1.05, 1.05, 2.0, 30.0, 1e7]
    expected = [sum(length > candidate for length in lengths) for candidate in LENGTH_GRID[1:]]
    np.testing.assert_array_equal(longer_than(rows_of(lengths)), expected)


@pytest.mark.parametrize("kind", ["whole rows", "numbers apart"])
def test_every_kind_of_rows_has_the_same_counts(kind):
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 1, (400, 3)) * (rng.random((400, 3)) < 0.3)
    factor, blocks, bound = np.array([4.0, 2.0, 0.5]), (), 1.0
    if kind == "numbers apart":
        blocks, bound = (Block(1, 1.0), Block(2, 1.0, "l2"), Block(1, 0.5)), math.sqrt(1.25)
    bounds = RowBounds(bound, 1.0, blocks=blocks, weighted=True)
    held = {"bound": 2.0, "intercept": 1.0}
    kinds = [
        LooseRows(table.T.copy().reshape(400, 3), np.ones(400), 3, 400),  # column by column
        DenseRows(table, np.ones(400), **held),
        SparseRows(sparse.csr_array(table), np.ones(400), **held),
    ]

    def change(covariates):
        return covariates @ sparse.diags_array(factor)

    counts = [counts_of_lengths(rows, change, bounds) for rows in kinds]
    np.testing.assert_array_equal(counts[0], counts[1])
    np.testing.assert_array_equal(counts[0], counts[2])
    lengths = np.linalg.norm((table * factor)[:, :2] if blocks else table * factor, axis=1)
    assert counts[0][4:].sum() == (lengths > 1).sum()


def test_a_record_that_cannot_be_used_is_longer_than_none():
    rows = rows_of([5.0, 5.0])
    rows.y[0] = 0.0
    assert longer_than(rows)[0] == 1


# -- what one record moves -----------------------------------------------------------------------

SIZES = (0.0, 1.05, 1.5, 40.0)


def tables_of_persons():
    """All tables of two persons, each with one or two records."""
    each = [*itertools.product(SIZES, repeat=1), *itertools.product(SIZES, repeat=2)]
    for first in each:
        for second in each:
            yield [*first, *second], np.repeat([0, 1], [len(first), len(second)])


def moved(one, other, longer):
    """How far scores move apart between two tables."""
    change = scores_of_high(other, longer) - scores_of_high(one, longer)
    return max(change.max(), 0.0) - min(change.min(), 0.0)


def check_records():
    for others in itertools.product(SIZES, repeat=2):
        counts = [counts_of_lengths(rows_of([*others, size]), same, BOUNDS) for size in SIZES]
        for one, other in itertools.product(counts, repeat=2):
            assert all(moved(one, other, longer) <= WIDTH for longer in (0.3, 1.0, 1.5))


def check_persons():
    fixed = [size for size in SIZES if size]
    for stays in fixed:
        counts = [
            counts_of_lengths(rows_of(lengths, owners, 2), same, BOUNDS)
            for lengths, owners in tables_of_persons()
            if lengths[0] == stays and list(owners).count(0) == 1
        ]
        for one, other in itertools.product(counts, repeat=2):
            assert all(moved(one, other, longer) <= WIDTH for longer in (0.3, 1.0, 1.5))


def test_one_record_moves_no_scores_apart_by_more_than_the_width():
    check_records()


def test_one_person_moves_no_scores_apart_by_more_than_the_width():
    check_persons()


def test_planted_person_who_counts_once_for_each_record_is_caught(monkeypatch):
    monkeypatch.setattr(stage, "unit_of_person", lambda persons: 1.0)
    monkeypatch.setattr(stage, "roots_of", lambda labels: None)
    monkeypatch.setattr(stage, "_WEIGHED_DOWN", 1.0)
    with pytest.raises(AssertionError):
        check_persons()


@pytest.mark.parametrize("epsilon", [0.13, 1.1, 1e4])
def test_scores_are_exact(epsilon):
    """In doubles as in fractions, so that the width is that of the proof."""
    calibration = calibrate_lengths(longer_records(3, PureDP(epsilon)), 10**6, PureDP(epsilon / 20))
    counts = np.zeros(2 * len(LENGTH_GRID) + 1)
    counts[[1, 4, 8, 9, 60]] = 777_777, 123, 99, 7, 2
    meant, less = Fraction(calibration.longer), counts[::-1].cumsum()[::2][:-1][::-1]
    for score, least, most in zip(
        scores_of_high(counts, calibration.longer), less[1:], less[:-1], strict=True
    ):
        loss = max(Fraction(least) - meant, 3 * (meant - Fraction(most)), Fraction(0)) / 4
        assert Fraction(score) == -loss


def test_a_share_for_a_length_that_is_not_released_is_refused_unpaid():
    spend = {"scale": 0.1, "lengths": 0.1, "coefficients": 0.8}
    for options in ({"do_scale": "private", "row_norm": 2.5}, {"loss": "huber"}):
        with pytest.raises(GuaranteeError, match="no length of rows is released"):
            plan("y ~ x", 4_000, 4.0, bounds={"x": (0, 20)}, spend=spend, **options)


# -- the choice ----------------------------------------------------------------------------------


def check_choices():
    """The chosen lengths follow the law of the exponential mechanism."""
    lengths = np.repeat([0.5, 1.3, 2.9, 9.0], [50, 30, 15, 5])
    calibration, rows = calibrate_lengths(10.0, 100, PureDP(0.5)), rows_of(lengths)
    calibration = replace(calibration, longer=10.0)
    scores = scores_of_high(counts_of_lengths(rows, same, BOUNDS), 10.0)
    mechanism = ExponentialMechanism(calibration.eta, WIDTH)
    expected = np.exp(mechanism.log_probabilities(scores))
    source, trials = SystemRandomness(), 1_500
    drawn = [
        release_length(rows, calibration, source.draw(calibration.noise), same, BOUNDS).length
        for _ in range(trials)
    ]
    seen = np.bincount(np.searchsorted(LENGTH_GRID, drawn) - 1, minlength=len(expected))
    order = np.argsort(expected)[::-1]
    parts = np.array_split(order[:40], 8)
    parts[-1] = np.concatenate([parts[-1], order[40:]])
    found = [seen[part].sum() for part in parts]
    assert stats.chisquare(found, [trials * expected[part].sum() for part in parts]).pvalue > 1e-6


def test_lengths_follow_their_law():
    check_choices()


def test_planted_choice_by_exact_counts_is_caught(monkeypatch):
    monkeypatch.setattr(
        ExponentialMechanism, "chosen", lambda self, scores, draw: int(np.argmax(scores))
    )
    with pytest.raises(AssertionError):
        check_choices()


def test_as_many_records_as_are_meant_are_longer_where_epsilon_is_large():
    lengths = np.random.default_rng(0).exponential(size=20_000)
    calibration = calibrate_lengths(longer_records(6, PureDP(10.0)), 20_000, PureDP(0.5))
    noise = SystemRandomness().draw(calibration.noise)
    found = release_length(rows_of(lengths), calibration, noise, same, BOUNDS).length
    longer = (lengths > found).sum()
    assert (lengths > 1.2 * found).sum() <= calibration.longer <= 2.5 * longer


# -- what it costs -------------------------------------------------------------------------------


def staged(target, spend="inference", op=True):
    groups = (ColumnGroup(1, "number"), ColumnGroup(1, "number"), ColumnGroup(2, "indicators"))
    facts = ScaleFacts(20_000, groups, True, 0.003, 1.0, longer=longer_records(5, target))
    request = Request(target, "objective" if op else "output", None, "free", "increase", spend)
    return calibrate_all(request, Problem(20_000, 5, LOGISTIC, 1.5), facts)


def check_price(target, spend, op):
    """All stages cost the claim together, to a hundredth, and no more."""
    events = staged(target, spend, op).events
    assert implied(events, target)
    eta = math.fsum(event.eta for event in events if isinstance(event, BoundedRangeEvent))
    pure = math.fsum(event.epsilon for event in events if isinstance(event, PureDP))
    mu = math.hypot(*(event.mu for event in events if isinstance(event, GaussianEvent)))
    if isinstance(target, PureDP):
        assert 0.99 * target.epsilon < pure + eta <= target.epsilon * (1 + 1e-12)
        return
    if isinstance(target, ZCDP):
        ranges = math.fsum(event.rho for event in events if isinstance(event, ZCDP))
        total = mu**2 / 2 + eta**2 / 8 + ranges
        assert 0.98 * target.rho < total <= target.rho * (1 + 1e-12)
        return
    tilts, most = (
        [event for event in events if isinstance(event, TiltEvent)],
        math.log(target.delta),
    )
    for epsilon, holds in ((target.epsilon, True), (0.97 * target.epsilon, False)):
        if tilts:
            assert (tilt_log_delta(tilts[0], epsilon - eta, mu) <= most) == holds
        else:
            assert (log_delta_beside_pure(epsilon - eta, pure, mu) <= most) == holds


@pytest.mark.parametrize("spend", ["inference", None, {"scale": 0.2, "coefficients": 0.8}])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_all_stages_cost_the_claim_together(target, spend):
    spend = spend if spend == "inference" else read_spend(spend)
    check_price(target, spend, op=not isinstance(target, ZCDP))


@pytest.mark.parametrize("target", [PureDP(1.0), ZCDP(0.1)], ids=str)
def test_shares_of_a_length_add_up_with_the_others(target):
    for spend in ("inference", {"coefficients": 0.75, "roc": 0.25}, {"lengths": 0.1}):
        shares = shares_of(
            target, spend if spend == "inference" else dict(read_spend(spend)), LOGISTIC,
            scaled=True, lengths=True,
        )  # fmt: skip
        assert math.fsum(shares.values()) == 1
        assert "lengths" in shares
    with pytest.raises(GuaranteeError, match="no length of rows is released"):
        shares_of(target, dict(read_spend({"lengths": 0.1})), LOGISTIC)


# -- what is seen of it --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.exponential(size=4_000).clip(0, 20), "z": rng.random(4_000)})
    frame["y"] = rng.random(4_000) < 0.5
    return dplr("y ~ x + z", frame, eps=4.0, bounds={"x": (0, 20), "z": (0, 1)})


def test_page_card_and_table_have_the_length(fitted):
    length = fitted.release.length
    assert length in LENGTH_GRID
    told = f"records longer than {length:.3g} lengths of a typical one (released) count less"
    assert told in " ".join(str(fitted).split())
    assert told in fitted.card()
    assert "the length of rows" in fitted.card()
    assert fitted.scale.attrs["length"] == length


def test_a_file_has_the_length_and_refuses_another(fitted, tmp_path):
    path = fitted.save(tmp_path / "fit.json") or tmp_path / "fit.json"
    again = load(path)
    assert again.release.length == fitted.release.length
    pd.testing.assert_series_equal(again.coef, fitted.coef)
    text = path.read_text(encoding="utf-8")
    for other in (2.22, 2.2):
        document = json.loads(text)
        assert document["released"]["shared"]["lengths"] == [fitted.release.length]
        document["released"]["shared"]["lengths"] = [other]
        document["sha256"] = content_hash(document)
        with pytest.raises(ReleaseFileError):
            restore(document)


def test_a_plan_has_the_most_likely_length():
    study = plan("y ~ x + z", 4_000, 4.0, bounds={"x": (0, 20), "z": (0, 1)})
    assert study.simulator.length in LENGTH_GRID
    assert "most likely" in " ".join(str(study).split())


def test_a_length_that_was_asked_for_is_not_released():
    study = plan("y ~ x", 4_000, 4.0, bounds={"x": (0, 20)}, do_scale="private", row_norm=2)
    assert "lengths" not in study.calibration.parts
    assert study.calibration.scale.typical is not None
