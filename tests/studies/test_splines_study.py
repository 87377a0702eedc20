"""A curve beats a line on records that no fit saw, at epsilon 1."""

import numpy as np

from tests.studies.splines import TERMS, one_run


def test_curves_beat_a_line_in_every_run_at_epsilon_one():
    losses = np.array([one_run(10_000, 1.0, seed)[:, 0] for seed in range(3)])
    named = dict(zip(TERMS, losses.T, strict=True))
    for name in ("bs", "ns", "cut"):
        assert (named["line"] - named[name]).min() > 0.05
