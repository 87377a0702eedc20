"""The study of the simplex on Cod-RNA: its verdicts, and the cell that the method is judged by."""

import numpy as np
import pytest
from studies.simplex_cod_rna import EPSILONS, Cell, measure
from studies.tables import HOME, data_home

needs_data = pytest.mark.skipif(data_home() is None, reason=f"{HOME} names no folder of tables")


def cell(mean, spread=0.001):
    accuracies = mean + spread * np.array([-1.0, 0.0, 1.0])
    return Cell("huber, radius 20", EPSILONS[2], 0.1, 900, accuracies, 0.936)


def test_a_mean_is_off_beyond_chance_and_a_hundredth():
    assert not cell(0.927).off
    assert not cell(0.918).off
    assert cell(0.90).off
    assert not cell(0.90, spread=0.02).off
    assert "| 0.927 |" in str(cell(0.93))


@needs_data
def test_accuracy_at_epsilon_one():
    found = measure("huber, radius 20", 1.0, 10)
    assert found.mean == pytest.approx(0.927, abs=0.01)
    assert found.hidden == pytest.approx(0.936, abs=0.003)
    assert not found.off
