"""The study of block noise: what holds without data, and its table by hand (``-m full``)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from flint import arb
from studies.block_noise import (
    EPSILONS,
    LOSSES,
    PUBLISHED,
    ShiftedLogistic,
    calibrate_for,
    reproduce,
)
from studies.tables import ADULT, BANK, GERMAN, HOME, data_home, radius_of, read_rows

from privatelr.privacy.noise import BlockLaplace, SphericalLaplace
from privatelr.types import Block

DESIGNS = [(ADULT.blocks, 105, 0.50), (BANK.blocks, 52, 0.56), (GERMAN.blocks, 62, 0.55)]


def spherical_law(blocks):
    """At the same epsilon as ``BlockLaplace(blocks, 1.0)``."""
    d = sum(block.size for block in blocks)
    return SphericalLaplace(d, 1 / radius_of(blocks))


def length_ratio(blocks):
    """Root of ``E|b|^2`` under block noise over ``E|b|`` under spherical noise."""
    block = np.sqrt(BlockLaplace(blocks, 1.0).variances.sum())
    return float(block / spherical_law(blocks).mean_length)


@pytest.mark.parametrize(("blocks", "d", "ratio"), DESIGNS, ids=["adult", "bank", "german"])
def test_block_noise_is_half_as_long(blocks, d, ratio):
    assert sum(block.size for block in blocks) == d
    assert length_ratio(blocks) == pytest.approx(ratio, abs=0.005)
    # as would not be found if the columns of a factor were bounded one by one
    torn = tuple(Block(1, block.bound) for block in blocks for _ in range(block.size))
    assert abs(length_ratio(torn) - ratio) > 0.03


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_study_compares_two_shapes_at_one_epsilon(loss):
    spherical = calibrate_for(1.0, 30162, ADULT.blocks, "spherical", loss)
    block = calibrate_for(1.0, 30162, ADULT.blocks, "block", loss)
    assert isinstance(spherical.noise, SphericalLaplace)
    assert isinstance(block.noise, BlockLaplace)
    assert spherical.target == block.target
    relative = spherical.noise.scale / block.problem.radius
    assert relative == pytest.approx(block.noise.scale, rel=1e-3)


def test_the_shifted_loss_keeps_its_constants():
    loss, margin, step = ShiftedLogistic(), np.linspace(-30, 30, 601), 1e-5
    rise = (loss.value(margin + step) - loss.value(margin - step)) / (2 * step)
    bend = (loss.slope(margin + step) - loss.slope(margin - step)) / (2 * step)
    np.testing.assert_allclose(rise, loss.slope(margin), atol=1e-8)
    np.testing.assert_allclose(bend, loss.curvature(margin), atol=1e-8)
    assert loss.curvature(np.array([2.0]))[0] == loss.curvature_bound
    for z in (-3.0, 2.0, 7.0):
        balls = loss.enclose(arb(z))
        found = (
            loss.value(np.array([z])),
            loss.slope(np.array([z])),
            loss.curvature(np.array([z])),
        )
        assert [float(ball.mid()) for ball in balls] == pytest.approx([x[0] for x in found])


def test_a_record_fills_its_blocks():
    record = {column: [low, high, high] for column, (low, high) in GERMAN.bounds.items()}
    record |= {column: [found[0], found[-1], "?"] for column, found in GERMAN.levels.items()}
    frame = pd.DataFrame(record | {GERMAN.response: [2, 1, 1]})
    rows = read_rows(frame, GERMAN, (-1.0, 1.0))
    assert rows.y.tolist() == [1.0, -1.0, 0.0]
    assert np.abs(rows.x).sum(axis=1)[:2] == pytest.approx(20.5)
    assert not rows.x[2].any()  # a level that is not declared


def distance(cells):
    """Root mean square of how many standard errors the cells are off."""
    return float(np.sqrt(np.mean([cell.off_by**2 for cell in cells])))


STUDIES = [
    ("german", 100, "symmetric", "spherical"),
    ("german", 100, "symmetric", "block"),
    ("adult", 10, "symmetric", "spherical"),
    ("adult", 10, "unit", "block"),
]
"""The published rows for Adult agree with two codings of numbers, spherical with the package's,
block with [0, 1]; with the package's, block noise errs less than published."""


@pytest.mark.full
@pytest.mark.skipif(data_home() is None, reason=f"{HOME} names no folder of data sets")
@pytest.mark.parametrize(("data", "runs", "numbers", "noise"), STUDIES)
def test_the_published_table(data, runs, numbers, noise):
    cells = reproduce(data, runs, data_home(), numbers, (noise,))
    assert all(abs(cell.off_by) < 4 for cell in cells)
    assert distance(cells) < 1.5
    # four times the noise would be seen
    noisier = [
        replace(cell, published=PUBLISHED[data, noise, cell.loss][index])
        for cell in cells
        if (index := EPSILONS.index(cell.epsilon) + 2) < len(EPSILONS)
    ]
    assert distance(noisier) > 2
