"""The study of a coarse step compares two releases of one price."""

import numpy as np
import pytest

from .coarse_step import replicate
from .coverage_runs import Cell


@pytest.mark.parametrize(("epsilon", "least", "most"), [(1e4, 0, 0.1), (0.3, 0.2, 3)])
def test_only_noise_makes_either_way_differ_from_exact_matrices(epsilon, least, most):
    """Without noise, what is left is what the clips of long records take."""
    for widths in replicate(Cell("normal", "pure", 6, 2000, epsilon), 0)["width"]:
        assert least < np.abs(widths).max() < most
