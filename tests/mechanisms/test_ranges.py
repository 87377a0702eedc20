"""Ranges of thin numbers: which are thin, what one record moves, and what all ranges cost."""

import itertools
import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privatelr.mechanisms.stages.ranges as stage
from privatelr import (
    ZCDP,
    ApproxDP,
    GuaranteeError,
    Ledger,
    PureDP,
    ReleaseFileError,
    dplr,
    load,
    plan,
)
from privatelr.mechanisms import Problem, Request, calibrate_all, read_spend, scale_map
from privatelr.mechanisms.range_selection import WIDTH, scores_of_high, scores_of_low
from privatelr.mechanisms.stages import lengths
from privatelr.mechanisms.stages.lengths import longer_records
from privatelr.mechanisms.stages.ranges import (
    RangeCalibrations,
    counts_in_cells,
    merged,
    offsets_of,
    release_ranges,
    thin_numbers_of,
)
from privatelr.mechanisms.stages.scale import (
    BEYOND,
    MOST_CELLS,
    ScaleFacts,
    ScaleRelease,
    calibrate_scale,
    price_of_range,
    scale_moments,
    share_of_ranges,
    spread_to_noise,
)
from privatelr.numerics import LOSSES
from privatelr.numerics.rows import LooseRows
from privatelr.privacy.accounting.agreement import implied
from privatelr.privacy.noise import SystemRandomness
from privatelr.privacy.noise.exponential_mechanism import ExponentialMechanism
from privatelr.results.release_files import content_hash, restore
from privatelr.types import ColumnGroup

NUMBER = ColumnGroup(1, "number")
TARGETS = [PureDP(1.0), ZCDP(0.05), ApproxDP(1.0, 1e-6)]
SMALL = PureDP(0.05)
LOGISTIC = LOSSES["logistic"]


def scale_of(means, variances, n=40_000):
    """A released scale of numbers with these moments."""
    facts = ScaleFacts(n, (NUMBER,) * len(means), True, 0.003, 1.0)
    means = np.array(means, dtype=float)
    values = np.concatenate([means, np.array(variances) + means**2])
    return ScaleRelease(values, calibrate_scale(facts, PureDP(0.1)))


def calibrated(scale, target=SMALL, most=2):
    return RangeCalibrations(target, scale.calibration, most)


def rows_of(table, labels=None, persons=None):
    table = np.array(table, dtype=float)
    labels = np.ones(len(table)) if labels is None else labels
    return replace(LooseRows(table, labels, table.shape[1], max(len(table), 1)), persons=persons)


def draws(made, source=None):
    return made.draw(source or SystemRandomness())


# -- which numbers are thin ----------------------------------------------------------------------


def test_the_thinnest_numbers_are_looked_at():
    scale = scale_of([0.5, 0.0, 0.2, -0.9], [0.2, 1e-9, 1e-3, 1e-6])
    assert thin_numbers_of(scale, 1)[0] == [1, 3]  # twice as many as are paid for
    assert thin_numbers_of(scale, 9)[0] == [1, 3, 2]
    assert thin_numbers_of(scale_of([0.0], [0.3]), 3)[0] == []


@pytest.mark.parametrize("missing", [0.02, 0.1, 0.3])
def test_records_that_cannot_be_used_hide_no_thin_number(missing):
    """They count as the middle of the bounds, far from its values."""
    n, rng = 40_000, np.random.default_rng(0)
    values = -0.992 + 0.0016 * rng.standard_normal(n)
    labels = np.where(rng.random(n) < missing, 0.0, 1.0)
    rows = rows_of((values * labels)[:, None], labels)
    scale = scale_of([(1 - missing) * -0.992], [missing * (1 - missing) * 0.992**2], n)
    assert spread_to_noise(scale)[0] > 9
    made = calibrated(scale, most=1)
    found = merged(scale, release_ranges(rows, made, made.draw(SystemRandomness()), scale))
    mean, variance = scale_moments(found)
    assert abs(mean[0] + 0.992) < 0.0016
    assert 0.7 * 0.0016 < math.sqrt(variance[0]) < 2 * 0.0016


def test_numbers_of_usual_spread_off_their_middle_keep_their_moments():
    rng, n = np.random.default_rng(0), 40_000
    values = rng.uniform(-1.0, -0.5, n)
    scale = scale_of([values.mean()], [values.var()], n)
    assert thin_numbers_of(scale, 1)[0] == [0]  # it is looked at
    made = calibrated(scale, most=1)
    found = release_ranges(rows_of(values[:, None]), made, draws(made), scale)
    np.testing.assert_array_equal(found.values, [-1, 1])


@pytest.mark.parametrize("mean_sd", [1e-9, 1e-4, 0.01, 0.25, 3.0])
def test_cells_reach_every_value_and_are_as_few_as_the_price_takes(mean_sd):
    ends = offsets_of(mean_sd)
    assert np.all(np.diff(ends) > 0)
    assert len(ends) - 1 <= MOST_CELLS
    np.testing.assert_allclose(ends, -ends[::-1], rtol=1e-12)
    assert ends[-1] >= 2.0


@pytest.mark.parametrize("ratio", [30, 300, 3_000])
def test_a_range_shows_the_spread_that_the_moments_hide(ratio):
    n, spread = 40_000, 1 / ratio
    rng = np.random.default_rng(ratio)
    values = np.clip(0.3 + spread * rng.standard_normal(n), -1, 1)
    scale = scale_of([0.302], [0.0], n)
    made = calibrated(scale, most=1)
    found = release_ranges(rows_of(values[:, None]), made, draws(made), scale)
    mean, variance = scale_moments(replace(scale, ranges=found.values))
    assert abs(mean[0] - 0.3) < spread / 2
    assert 0.7 * spread < math.sqrt(variance[0]) < 1.5 * spread
    centre, factor = scale_map(replace(scale, ranges=found.values))
    assert np.std((values - centre[0]) * factor[0]) == pytest.approx(1, rel=0.45)


def test_a_number_with_most_values_in_one_cell_stays_hidden():
    scale = scale_of([0.0], [0.0])
    made = calibrated(scale, most=1)
    values = np.where(np.random.default_rng(0).random(40_000) < 0.03, 0.01, 0.0)
    found = release_ranges(rows_of(values[:, None]), made, draws(made), scale)
    assert found.values[0] == found.values[1]
    known = merged(scale, found)
    assert list(known.thin[0]) == [0]
    assert len(known.ranged[0]) == 0
    np.testing.assert_array_equal(scale_map(known)[1], scale_map(scale)[1])


def test_numbers_that_are_not_thin_keep_their_moments():
    scale = scale_of([0.1, 0.2], [0.2, 0.3])
    made = calibrated(scale)
    found = release_ranges(rows_of(np.zeros((40_000, 2))), made, draws(made), scale)
    np.testing.assert_array_equal(found.values, [-1, -1, 1, 1])
    for one, other in zip(
        scale_moments(scale), scale_moments(replace(scale, ranges=found.values)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


# -- what one record moves -----------------------------------------------------------------------

PLACES = (-1.0, 0.0, 1e-3, 1.0)


def counts_of(values, labels=None, persons=None, ends=None):
    """The counts of one column, in the units of the choice."""
    rows = rows_of(np.array(values)[:, None], labels, persons)
    return counts_in_cells(rows, [0], (offsets_of(0.01) if ends is None else ends)[None])[0]


def moved(one, other, beyond):
    """How far the scores of either end move apart between two tables."""
    for scores in (scores_of_low, scores_of_high):
        change = scores(other, beyond) - scores(one, beyond)
        yield max(change.max(), 0.0) - min(change.min(), 0.0)


def check_records():
    for others in itertools.product(PLACES, repeat=2):
        tables = [
            counts_of([*others, place], np.array([1.0, 1.0, label]))
            for place in PLACES
            for label in (0.0, 1.0)
        ]
        for one, other in itertools.product(tables, repeat=2):
            assert all(m <= WIDTH for beyond in (0.5, 1.0) for m in moved(one, other, beyond))


def check_persons():
    each = [*itertools.product(PLACES, repeat=1), *itertools.product(PLACES, repeat=2)]
    tables = []
    for values in each:
        owners = np.repeat([0, 1], [1, len(values)])
        labels = np.sqrt(np.bincount(owners, minlength=2)[owners])
        tables.append(counts_of([0.0, *values], labels, persons=2))
    for one, other in itertools.product(tables, repeat=2):
        assert all(m <= WIDTH for beyond in (0.5, 1.0) for m in moved(one, other, beyond))


def test_one_record_moves_no_scores_apart_by_more_than_the_width():
    check_records()


def test_one_person_moves_no_scores_apart_by_more_than_the_width():
    check_persons()


def test_planted_person_who_counts_once_for_each_record_is_caught(monkeypatch):
    monkeypatch.setattr(lengths, "unit_of_person", lambda persons: 1.0)
    monkeypatch.setattr(stage, "units_of", lambda labels, roots, unit: np.ones(len(labels)))
    with pytest.raises(AssertionError):
        check_persons()


def test_a_record_that_cannot_be_used_is_beyond_no_end():
    assert counts_of([0.5, 0.5], np.array([0.0, 1.0])).sum() == 1


# -- the choice ----------------------------------------------------------------------------------


def check_choices():
    """The chosen ends follow the law of the exponential mechanism."""
    n, trials = 400, 600
    scale = scale_of([0.0], [0.0], n)
    made = calibrated(scale, PureDP(2.0), most=1)
    values = np.repeat([-0.3, -0.02, 0.04, 0.5], [60, 150, 150, 40])
    rows, source = rows_of(values[:, None]), SystemRandomness()
    ends = np.clip(offsets_of(scale.calibration.mean_sd), -1, 1)
    slots = counts_of(values, ends=offsets_of(scale.calibration.mean_sd))
    expected = np.exp(made.mechanism(1).log_probabilities(scores_of_low(slots, BEYOND * n)))
    chosen = [
        release_ranges(rows, made, draws(made, source), scale).values[0] for _ in range(trials)
    ]
    edges = [-1.0, *np.quantile(values, [0.1, 0.2]), 0.0, 0.1, 1.0]
    seen = np.histogram(chosen, edges)[0]
    groups = np.histogram(ends[:-1], edges, weights=expected)[0]
    kept = groups * trials > 5
    assert (
        stats.chisquare(
            [*seen[kept], trials - seen[kept].sum() + 1e-9],
            [*(trials * groups[kept]), trials * (1 - groups[kept].sum()) + 1e-9],
        ).pvalue
        > 1e-6
    )


def test_ranges_follow_their_law():
    check_choices()


def test_planted_choice_by_exact_counts_is_caught(monkeypatch):
    monkeypatch.setattr(
        ExponentialMechanism, "chosen", lambda self, scores, draw: int(np.argmax(scores))
    )
    with pytest.raises(AssertionError):
        check_choices()


# -- what it costs -------------------------------------------------------------------------------


def staged(target, spend="inference", n=20_000, numbers=2, centred=True):
    facts = ScaleFacts(
        n, (NUMBER,) * numbers, centred, 0.003, 1.0, longer=longer_records(numbers + 1, target)
    )
    placement = "output" if isinstance(target, ZCDP) else "objective"
    request = Request(target, placement, None, "free", "increase", spend)
    return calibrate_all(request, Problem(n, numbers + 1, LOGISTIC, 1.5), facts)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_all_stages_cost_the_claim_together(target):
    made = staged(target)
    assert implied(made.events, target)
    part = made.parts["ranges"]
    for numbers in range(1, 2 * part.most + 1):
        eta, times = part.mechanism(numbers).epsilon, 2 * numbers
        whole = times * eta**2 / 8 if isinstance(part.target, ZCDP) else times * eta
        price = part.target.rho if isinstance(part.target, ZCDP) else part.target.epsilon
        assert 0.99 * price < whole <= price * (1 + 1e-12)
    dearer = replace(part, target=replace(part.target, **louder(part.target)))
    assert not implied(made.having({"ranges": dearer}).events, target)


def louder(target):
    return (
        {"rho": 30 * target.rho} if isinstance(target, ZCDP) else {"epsilon": 30 * target.epsilon}
    )


def test_ranges_are_paid_for_where_they_are_a_small_share():
    facts = staged(PureDP(1.0)).scale.facts
    assert share_of_ranges(facts, PureDP(0.2)) == 0.0
    shares = [share_of_ranges(facts, PureDP(eps)) for eps in (1.0, 4.0, 100.0)]
    assert 0.05 >= shares[0] > shares[1] > shares[2] > 0
    assert shares[2] * 100 >= 2 * price_of_range(facts, PureDP(100.0))
    assert share_of_ranges(replace(facts, centred=False), PureDP(9.0)) == 0.0
    assert "ranges" not in staged(PureDP(1.0), read_spend(None)).parts


def test_a_share_that_pays_for_no_range_is_refused_unpaid():
    spend = {"ranges": 0.01, "inference": 0.3, "coefficients": 0.69}
    with pytest.raises(GuaranteeError, match="spend: ranges would get"):
        plan("y ~ x", 1_000, 1.0, bounds={"x": (0, 20)}, spend=spend, do_scale="private")
    with pytest.raises(GuaranteeError, match="do_scale='private' releases them"):
        plan("y ~ x", 1_000, 1.0, bounds={"x": (0, 20)}, spend=spend, do_scale=False)


# -- what is seen of it --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"x": rng.normal(50, 10, 20_000), "z": rng.uniform(size=20_000)})
    found["y"] = rng.random(20_000) < 1 / (1 + np.exp(-(found.x - 50) / 15))
    return found


WIDE = {"x": (0, 1e5), "z": (0, 1)}


@pytest.fixture(scope="module")
def fitted(frame):
    return dplr("y ~ x + z", frame, eps=2.0, spend="inference", bounds=WIDE)


def test_bounds_that_are_far_too_wide_leave_an_interval(fitted):
    low, high = fitted.conf_int().loc["x"]
    assert high - low < 0.02
    assert abs((low + high) / 2 - 1 / 15) < high - low  # about four standard errors
    assert "for 1 number: those whose spread the moments hide" in fitted.card()
    assert "the ranges of thin numbers" in fitted.card()
    table = fitted.scale
    assert 5 < table.loc["x", "sd"] < 20
    assert 40 < table.loc["x", "mean"] < 60
    assert np.isnan(table.loc["x", "noise_sd"])


def test_a_ledger_is_charged_for_the_ranges(frame, fitted):
    ledger = Ledger(epsilon=2.0)
    dplr("y ~ x + z", frame, eps=2.0, spend="inference", bounds=WIDE, ledger=ledger)
    assert ledger.spent() == 2.0
    (event,) = fitted.release.parts["ranges"].calibration.events
    assert event in ledger.entries[0].events


def test_a_file_has_the_ranges(fitted, tmp_path):
    fitted.save(tmp_path / "fit.json")
    again = load(tmp_path / "fit.json")
    np.testing.assert_array_equal(
        again.release.parts["ranges"].values, fitted.release.parts["ranges"].values
    )
    pd.testing.assert_frame_equal(again.conf_int(), fitted.conf_int())


@pytest.mark.parametrize(
    "ends", [[-2, -1, 0, 1], [0.5, -1, 0, 1], [-1, -1, 1, 1.5], [-0.5, -1, 0.5, 1]]
)
def test_a_file_with_impossible_ranges_is_refused(fitted, ends, tmp_path):
    fitted.save(tmp_path / "fit.json")
    document = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"))
    document["released"]["shared"]["ranges"] = ends
    document["sha256"] = content_hash(document)
    with pytest.raises(ReleaseFileError, match="ranges take"):
        restore(document)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_streams_and_frames_have_the_same_ranges(frame, delta):
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pandas(frame)
    given = {"eps": 2.0, "delta": delta, "spend": "inference", "bounds": WIDE, "seed": 3}
    with warnings.catch_warnings(action="ignore"):  # a seed is warned of
        fits = [dplr("y ~ x + z", data, **given) for data in (frame, table.to_reader)]
    np.testing.assert_array_equal(*(fit.release.parts["ranges"].values for fit in fits))
    np.testing.assert_array_equal(*(fit.release.coef for fit in fits))
