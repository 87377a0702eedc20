"""The study of losses: it measures what the front door releases, and says what is clear."""

import gzip
from itertools import combinations, repeat

import numpy as np
import pandas as pd
import pytest
from studies.block_noise import private_coef
from studies.losses import (
    EPSILONS,
    LOSSES,
    MULTIPLES,
    MULTIPLES_EPSILONS,
    SPLITS,
    Cell,
    Setting,
    calibrate_for,
    clear_difference,
    comparisons,
    error_rates,
    error_table,
    measure,
    multiples_settings,
    multiples_table,
    table_settings,
    verdict,
)
from studies.tables import (
    A9A_GROUPS,
    BANK,
    HOME,
    a9a_splits,
    bounded,
    data_home,
    product_of_blocks,
    read_binary,
    read_rows,
)

from privatelr import PrivacyWarning, dplr, dpsvm
from privatelr.numerics import Objective
from privatelr.numerics.solve import Newton
from privatelr.privacy.noise import BlockLaplace, SeededRandomness

needs_data = pytest.mark.skipif(data_home() is None, reason=f"{HOME} names no folder of tables")
NUMBERS = np.random.default_rng(7).uniform(-1, 1, (400, 3))
CHANCE = np.random.default_rng(8).logistic(size=400)
LABELS = np.where(NUMBERS @ [2.0, -1.0, 0.3] + CHANCE > 0.2, 1.0, -1.0)
ROWS = bounded(NUMBERS, LABELS, product_of_blocks(3, []))

DOORS = {
    "logistic": (dplr, {}),
    "softplus h=.25": (dpsvm, {"loss": "softplus", "h": 0.25}),
    "huber h=.5": (dpsvm, {"loss": "huber"}),
    "huber h=.1": (dpsvm, {"loss": "huber", "h": 0.1}),
}


@pytest.mark.parametrize("loss", DOORS)
def test_the_study_releases_what_the_front_door_releases(loss):
    frame = pd.DataFrame(NUMBERS, columns=["a", "b", "c"]).assign(y=LABELS > 0)
    bounds = dict.fromkeys("abc", (-1.0, 1.0))
    door, more = DOORS[loss]
    more = {"bounds": bounds, "do_scale": False, **more}
    with pytest.warns(PrivacyWarning, match="seed"):
        fit = door("y ~ a + b + c", frame, eps=0.5, seed=11, **more)
    calibration, public = calibrate_for(Setting(loss, 0.5), ROWS), fit.calibration
    # a formula's blocks are wider by a share of 2**-40
    assert calibration.lambda_ == pytest.approx(public.lambda_, rel=1e-9)
    assert isinstance(calibration.noise, BlockLaplace)
    assert isinstance(public.noise, BlockLaplace)
    assert calibration.noise.rate == pytest.approx(public.noise.rate, rel=1e-9)
    coef = private_coef(ROWS, calibration, SeededRandomness(11))
    np.testing.assert_allclose(coef, fit.release.coef, rtol=0, atol=1e-7)
    assert np.abs(private_coef(ROWS, calibration, SeededRandomness(12)) - coef).max() > 1e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_calibrations_are_by_the_tightest_bound(loss):
    for epsilon in EPSILONS:
        automatic = calibrate_for(Setting(loss, epsilon), ROWS)
        assert automatic.analysis == ("one-log" if loss.startswith("huber") else "joint")
        assert automatic.target.epsilon == epsilon
        scales = []
        for multiple in MULTIPLES:
            other = calibrate_for(Setting(loss, epsilon, multiple), ROWS)
            assert other.lambda_ == pytest.approx(multiple * automatic.lambda_)
            assert other.target == automatic.target
            scales.append(other.noise.scale)
        assert scales == sorted(scales, reverse=True)  # curvature has its price


def test_the_margin_of_two_is_softplus_in_other_units():
    """``.5 log(1 + exp(2 - 2 z))`` at Lambda is half of ``log(1 + exp(2 - z))`` at Lambda / 2."""
    tilt = 0.02 * np.random.default_rng(9).standard_normal(ROWS.d)
    softplus, shifted = LOSSES["softplus h=.5"], LOSSES["logistic z-2"]
    w = Newton()(Objective(ROWS, softplus, 0.02, tilt)).w
    np.testing.assert_allclose(
        Newton()(Objective(ROWS, shifted, 0.01, tilt)).w, 2 * w, rtol=0, atol=1e-7
    )
    assert np.abs(Newton()(Objective(ROWS, shifted, 0.02, tilt)).w - 2 * w).max() > 0.05


def test_error_rates():
    link = np.array([0.3, -1.0, 2.0, 0.3, -0.2, 1.0])
    labels = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    cuts = [-np.inf, -0.5, 0.0, 0.5, 1.5, np.inf]
    best = min(np.mean(np.where(link > cut, 1, -1) != labels) for cut in cuts)
    # equal scores fall on one side together: no threshold separates the first from the fourth
    assert error_rates(link, labels) == pytest.approx((2 / 6, best))
    assert best == 1 / 6
    assert error_rates(-link, labels)[0] == pytest.approx(4 / 6)
    # a score of zero is on the wrong side of zero, whatever the label
    assert error_rates(np.zeros(6), labels) == pytest.approx((1.0, 2 / 6))


def test_all_losses_meet_the_same_noise():
    settings = table_settings()
    cells, majority = measure("adult", settings, 3, repeat((ROWS, ROWS)))
    assert [cell.setting for cell in cells] == settings
    assert majority == pytest.approx(min(np.mean(LABELS > 0), np.mean(LABELS < 0)))
    by_setting = {cell.setting: cell for cell in cells}
    alone, _ = measure("adult", settings[-1:], 3, repeat((ROWS, ROWS)))
    np.testing.assert_array_equal(alone[0].errors, by_setting[settings[-1]].errors)
    for cell in cells:
        assert (cell.moved <= cell.errors).all()
    place, run = EPSILONS.index(0.2), 2
    calibration = calibrate_for(Setting("huber h=.5", 0.2), ROWS)
    coef = private_coef(ROWS, calibration, SeededRandomness(run * len(EPSILONS) + place))
    expected = error_rates(*ROWS.scores(coef))
    found = by_setting[Setting("huber h=.5", 0.2)]
    assert (found.errors[run], found.moved[run]) == expected
    lines = [*error_table(cells, majority), *verdict(cells)]
    assert sum(line.startswith("logistic  ") for line in lines) == 2
    assert any("published" in line for line in lines)


def cell_of(loss, errors, epsilon=0.1):
    return Cell("adult", Setting(loss, epsilon), errors, errors)


def named(cell):
    return cell.setting.loss, cell.errors


def test_differences_are_clear_or_not():
    rng = np.random.default_rng(10)
    luck = 0.02 * rng.standard_normal(60)
    first = cell_of("logistic", 0.2 + luck)
    better = cell_of("huber h=.5", 0.195 + luck + 0.003 * rng.standard_normal(60))
    assert clear_difference(better, first) == pytest.approx(-0.005, abs=0.002)
    # runs that do not meet the same noise tell less
    unpaired = cell_of("huber h=.5", rng.permutation(better.errors))
    assert clear_difference(unpaired, first) == 0
    for other, words in ((better, "huber h=.5 | logistic +0.00"), (unpaired, "logistic | ")):
        cells = [cell_of(*pair, eps) for eps in EPSILONS for pair in (named(first), named(other))]
        lines = [*verdict(cells)]
        assert len(lines) == 1 + len(EPSILONS)
        assert all(words in line for line in lines[1:])
    assert comparisons() == 3 * 4 * 15


def test_no_difference_is_clear_by_chance(monkeypatch):
    rng = np.random.default_rng(11)
    cells = [cell_of("logistic", 0.02 * rng.standard_normal(30)) for _ in range(60)]
    pairs = list(combinations(cells, 2))
    assert sum(clear_difference(*pair) != 0 for pair in pairs) <= 3  # of 1770, 1 in 3600
    monkeypatch.setattr("studies.losses.comparisons", lambda: 1)
    assert sum(clear_difference(*pair) != 0 for pair in pairs) > 40  # 1 in 20


def test_multiples_have_a_table():
    cells, _ = measure("adult", multiples_settings(), 2, repeat((ROWS, ROWS)))
    lines = [*multiples_table(cells)]
    assert len(lines) == 2 + len(LOSSES) * len(MULTIPLES_EPSILONS)
    assert all(line.count("(") == len(MULTIPLES) for line in lines[2:])


def test_binary_files_are_read(tmp_path):
    with gzip.open(tmp_path / "a.gz", "wt") as file:
        file.write("-1 3:1 11:1 \n+1 1:1 123:1\n")
    covariates, labels = read_binary(tmp_path / "a.gz", sum(A9A_GROUPS))
    assert covariates.shape == (2, 123)
    assert [list(np.flatnonzero(row) + 1) for row in covariates] == [[3, 11], [1, 123]]
    assert labels.tolist() == [-1.0, 1.0]


def test_bank_records_fill_their_blocks():
    record = {column: [low, high, 2 * high] for column, (low, high) in BANK.bounds.items()}
    record |= {column: [found[0], found[-1], found[0]] for column, found in BANK.levels.items()}
    frame = pd.DataFrame(record | {BANK.response: ["yes", "no", "no"]})
    rows = read_rows(frame, BANK, (-1.0, 1.0))
    assert rows.d == 52
    assert rows.y.tolist() == [1.0, -1.0, -1.0]
    np.testing.assert_allclose(np.abs(rows.x).sum(axis=1), 16.5)
    frame.loc[1, 10] = "June"
    assert not read_rows(frame, BANK, (-1.0, 1.0)).x[1].any()


@needs_data
def test_a9a_has_one_column_for_each_attribute_at_most():
    train, test = next(a9a_splits(data_home(), (-1.0, 1.0)))
    assert [(rows.n, np.count_nonzero(rows.y > 0)) for rows in (train, test)] == [
        (32561, 7841),
        (16281, 3846),
    ]
    assert train.d == 124

    def fullest(sizes):
        starts = np.cumsum([1, *sizes[:-1]])
        return np.add.reduceat(train.x, starts, axis=1).max(axis=0)

    assert (fullest(A9A_GROUPS) == 1).all()
    # groups that are off by one column would have shortened records
    moved = (A9A_GROUPS[0] + 1, A9A_GROUPS[1] - 1, *A9A_GROUPS[2:])
    assert fullest(moved).max() > 1


@needs_data
def test_bank_is_read_as_declared():
    train, test = next(SPLITS["bank"](data_home(), (-1.0, 1.0)))
    assert (train.n + test.n, np.count_nonzero(train.y > 0) + np.count_nonzero(test.y > 0)) == (
        45211,
        5289,
    )
    assert (train.y != 0).all()
    assert (test.y != 0).all()
