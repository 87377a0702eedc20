"""The audit of draws on the simplex: exact laws, real releases, and bugs that it has to see."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from privatelr.audit import enumerated_choices
from privatelr.audit.enumerated_choices import (
    exact_minimiser,
    histograms_of,
)
from privatelr.errors import ArgumentError
from privatelr.numerics import LOSSES, Huber
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import PureDP
from privatelr.selection.simplex import (
    SimplexProblem,
    calibrate_simplex,
    minimiser_logs,
    release_simplex,
)


def test_releases_of_another_law_are_seen(monkeypatch):
    """A solver that stops early, so that draws are not from the minimiser."""

    def early(rows, calibration, randomness):
        return release_simplex(rows, replace(calibration, tolerance=1e6), randomness)

    monkeypatch.setattr(enumerated_choices.simplex, "release_simplex", early)
    found = [*enumerated_choices.audit_plays(np.random.default_rng(1), 1.0, 1)]
    (check,) = (check for check in found if "draws from the simplex" in check.subject)
    assert check.verdict == "VIOLATION"


def pair_of_rows():
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-1, 1, (40, 2)), rng.choice([-1.0, 1.0], 40)
    moved = x.copy()
    moved[0] = -moved[0]
    return [EntryRows(side, y, x_bound=1.0) for side in (x, moved)]


@pytest.mark.parametrize("loss", [*LOSSES.values(), Huber(0.01)], ids=str)
def test_the_definition_and_the_release_agree(loss):
    first, _ = pair_of_rows()
    chosen = calibrate_simplex(SimplexProblem(40, 2, 1.0, 8.0, loss), PureDP(3.0))
    ours = special.log_softmax(minimiser_logs(first, chosen))
    exact = exact_minimiser(first, chosen.problem)
    allowed = 2 * chosen.tolerance / chosen.problem.penalty
    assert np.abs(ours - exact).max() <= allowed * chosen.stability.kappa + 1e-9


def test_too_many_histograms_are_refused():
    with pytest.raises(ArgumentError, match="draws=1000"):
        histograms_of(6, 1000)
