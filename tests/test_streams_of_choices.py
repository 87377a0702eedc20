"""Choices of columns from rows that are read anew in every pass: those of the frame in memory."""

import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from changed_tables import fewer
from frames_for_laws import FORMULA, SCHEMA, clinic
from repeated_noise import drawn, trial
from streams_for_tests import CHANGES, EVERY_MEMORY, arrow, changing, in_batches, more, pa

from privatelr import Ledger, SchemaError, dplpsvm, dpsimplex, stream
from privatelr.numerics import threads
from privatelr.numerics.rows import stream_rows

CHOICES = [
    (dplpsvm, {"rounds": 12}),
    (dplpsvm, {"rounds": 9, "score": "count"}),
    (dplpsvm, {"eps": 0, "rounds": 20}),
    (dplpsvm, {"spend": {"coefficients": 0.7, "roc": 0.3}}),
    (dpsimplex, {}),
    (dpsimplex, {"loss": "logistic", "eps": 2.0}),
    (dpsimplex, {"eps": 0}),
]


@EVERY_MEMORY
@pytest.mark.parametrize("lengths", [(), (90, 0, 300, 1)])
@pytest.mark.parametrize(("model", "options"), CHOICES)
def test_columns_are_chosen_as_in_memory(model, options, lengths, memory):
    frame = trial(700)
    frame.loc[[3, 600], "dose"] = np.nan
    source = stream(in_batches(arrow(frame), *lengths), memory=memory)
    found, expected = (drawn(model, FORMULA, data, **SCHEMA, **options) for data in (source, frame))
    pd.testing.assert_frame_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    assert str(found) == str(expected)
    assert found.diagnostics.c_index == pytest.approx(expected.diagnostics.c_index, abs=1e-9)


@pytest.mark.parametrize("model", [dplpsvm, dpsimplex])
@pytest.mark.parametrize("limit", [1, 3])
def test_pieces_of_choices_are_as_many_as_threads_need(model, limit):
    """Of several pieces, in each of which weights of records are those of their places."""
    frame, options = trial(80_000), {"rounds": 6} if model is dplpsvm else {}
    with threads(limit):
        source = stream(in_batches(arrow(frame), 999, 50_000), memory=0)
        found = drawn(model, FORMULA, source, **SCHEMA, **options)
    expected = drawn(model, FORMULA, frame, **SCHEMA, **options)
    pd.testing.assert_frame_equal(found.selected, expected.selected)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("after", [2, 3, 4])
@pytest.mark.parametrize("model", [dplpsvm, dpsimplex])
def test_choices_of_data_that_change_are_refused(model, change, after):
    source, readings = changing(clinic(50), change, after)
    ledger = Ledger(epsilon=3.0)
    if after == 2 and change not in (fewer, more):  # no pass was over other data
        drawn(model, FORMULA, stream(source, memory=0), ledger=ledger, **SCHEMA)
        return
    with pytest.raises(SchemaError, match="they changed while they were read") as told:
        drawn(model, FORMULA, stream(source, memory=0), ledger=ledger, **SCHEMA)
    assert not re.search(r"\d", str(told.value)), "nothing of how"
    assert len(ledger.entries) == 1
    assert len(readings) <= after + 1


def test_pieces_that_change_places_are_noticed():
    """Weights are those of places: a sum of what pieces are would be the same as before."""
    size = 2**15  # rows of a piece of few columns
    frame = trial(2 * size)
    exchanged = pd.concat([frame[size:], frame[:size]])
    source, _ = changing(frame, lambda _: exchanged, 3)
    with pytest.raises(SchemaError, match="they changed while they were read"):
        drawn(dplpsvm, FORMULA, stream(source, memory=0), **SCHEMA)


def test_memory_of_choices_is_a_few_numbers_a_record(monkeypatch):
    """large.md says how many bytes; 20 columns and the rows made of them have 336."""
    monkeypatch.setattr(stream_rows, "_ROWS", 2**12)
    peaks = []
    for n in (1_000, 40_000, 80_000):  # the first imports what is imported late
        rng = np.random.default_rng(1)
        x = rng.uniform(-1, 1, (20, n))
        table = pa.table({**{f"x{i}": x[i] for i in range(20)}, "y": x[0] > 0})
        source, bounds = stream(in_batches(table), memory=0), {f"x{i}": (-1, 1) for i in range(20)}
        for model, options in ((dplpsvm, {"rounds": 3}), (dpsimplex, {})):
            with threads(1):
                tracemalloc.start()
                model("y ~ .", source, 1.0, bounds=bounds, **options)
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
    for few, many in zip(peaks[2:4], peaks[4:], strict=True):
        assert (many - few) / 40_000 < 64
