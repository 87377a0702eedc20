"""The audit of draws on the simplex: exact laws, real releases, and bugs that it has to see."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from privatelr.audit.enumeration import tiny_cases
from privatelr.audit.enumeration.discrete import histogram_loss
from privatelr.audit.enumeration.tiny_cases import (
    audit_simplex,
    exact_minimiser,
    histograms_of,
    log_chances,
)
from privatelr.errors import ArgumentError
from privatelr.numerics import LOSSES, Huber
from privatelr.numerics.rows import EntryRows
from privatelr.privacy import ApproxDP, PureDP
from privatelr.privacy.noise import SystemRandomness
from privatelr.selection import simplex
from privatelr.selection.simplex import (
    SimplexProblem,
    Stability,
    calibrate_simplex,
    minimiser_logs,
    release_simplex,
    stability_of,
)

FEW = {"trials": 60, "pairs": 4}


def halved(problem):
    """Stability as if the columns had no mirror images: W = R."""
    found = stability_of(problem)
    return Stability(found.largest / 2, found.width / 2, found.sd / 2, found.kappa)


def test_half_the_sensitivity_is_a_violation(monkeypatch):
    monkeypatch.setattr(simplex, "stability_of", halved)
    monkeypatch.setattr(tiny_cases, "LOSSES", {"huber": Huber()})
    rows = audit_simplex(1.0, np.random.default_rng(0), **FEW)
    verdicts = {row.claim: row.verdict for row in rows}
    assert verdicts["epsilon = 1"] == verdicts["rho = 0.5"] == "VIOLATION"
    deltas = [verdict for claim, verdict in verdicts.items() if "delta" in claim]
    assert "VIOLATION" in deltas


def test_releases_of_another_law_are_seen(monkeypatch):
    """A solver that stops early, so that draws are not from the minimiser."""
    monkeypatch.setattr(tiny_cases, "LOSSES", {"huber": Huber()})

    def early(rows, calibration, randomness):
        return release_simplex(rows, replace(calibration, tolerance=1e3), randomness)

    monkeypatch.setattr(tiny_cases, "release_simplex", early)
    rows = audit_simplex(3.0, np.random.default_rng(1), trials=600, pairs=4)
    assert min(row.differs for row in rows) < 1e-6


def pair_of_rows():
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-1, 1, (40, 2)), rng.choice([-1.0, 1.0], 40)
    moved = x.copy()
    moved[0] = -moved[0]
    return [EntryRows(side, y, x_bound=1.0) for side in (x, moved)]


def test_the_loss_of_a_histogram_is_the_ratio_of_its_chances():
    first, second = pair_of_rows()
    facts = SimplexProblem(40, 2, 1.0, 1.0, Huber())
    chosen = calibrate_simplex(facts, PureDP(1.0), "auto", 4)
    histograms = histograms_of(4, 4)
    laws = [log_chances(histograms, exact_minimiser(r, chosen.problem)) for r in (first, second)]
    found = [histogram_loss(first, second, chosen, counts) for counts in histograms]
    np.testing.assert_allclose(found, laws[0] - laws[1], atol=1e-6)
    assert np.abs(found).max() <= 1.0


def test_the_loss_of_a_real_release():
    first, second = pair_of_rows()
    chosen = calibrate_simplex(SimplexProblem(40, 2, 1.0, 1.0, Huber()), ApproxDP(1.0, 1e-6))
    counts = release_simplex(first, chosen, SystemRandomness()).counts
    loss = histogram_loss(first, second, chosen, counts)
    assert abs(loss) <= chosen.draws * chosen.stability.largest
    assert loss == -histogram_loss(second, first, chosen, counts)


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
