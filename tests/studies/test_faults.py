"""A few of the faults of the study, small enough for every run."""

import functools

import numpy as np
import pytest
from studies import faults


@pytest.mark.parametrize("kind", faults.SPOILED)
def test_a_stream_that_is_spoiled_ends_in_a_sentence_or_a_right_fit(kind):
    rng = np.random.default_rng(5)
    found = {faults.of_stream(kind, rng, records=500) for _ in range(3)}
    assert found <= {"right", "right, of what all passes read", "a sentence"}


@pytest.mark.parametrize("kind", ["value changes", "order changes"])
def test_a_change_between_any_two_passes_is_noticed(kind):
    """Also between the scale of the columns, which other rows of the same table are read for."""
    for strikes in range(1, 13):
        source, changed = faults.spoiled(kind, strikes, 300, np.random.default_rng(strikes))
        fit = functools.partial(faults.fitted, faults.stream(source, memory=0))
        assert faults.outcome(fit, 300, changed) in (
            *("right", "right, of what all passes read", "a sentence"),
        )


def test_a_stream_without_a_fault_is_right_and_a_wrong_fit_is_noticed(monkeypatch):
    source, _ = faults.spoiled("value changes", 99, 500, np.random.default_rng(1))
    fit = lambda: faults.fitted(faults.stream(source, memory=0))  # noqa: E731
    assert faults.outcome(fit, 500) == "right"
    assert faults.outcome(lambda: fit() + 1e-3, 500) == "WRONG"
    assert faults.outcome(lambda: 1 / 0, 500) == "ERROR: ZeroDivisionError"
    monkeypatch.setattr(faults, "LONGEST", 1)
    assert faults.outcome(lambda: faults.time.sleep(5), 500) == "HANGS"
