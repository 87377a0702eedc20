"""The line about a pass: what it shows, and that nothing of it stays on the screen."""

import numpy as np
import pyarrow as pa
import pytest
from frames_for_laws import FORMULA, SCHEMA
from repeated_noise import trial

from privatelr import dplr, progress_line, stream
from privatelr.progress_line import ProgressLine


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [100.0]
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now[0])
    return now


def test_a_line_tells_the_rate_and_what_is_left(clock, capsys):
    line = ProgressLine("reading batches", 4_000_000)
    line.show(0.01)  # a moment after it began
    assert capsys.readouterr().err == ""
    clock[0] += 2
    line.show(0.25)
    shown = capsys.readouterr().err
    assert "500,000 records a second, 6 s left" in shown
    assert shown.count("#") == progress_line._LENGTH // 4
    line.remove()
    assert not capsys.readouterr().err.strip()
    line.draw(0.0)
    assert "left" not in capsys.readouterr().err


def test_a_stream_shows_its_passes_and_does_not_count_them(monkeypatch, capfd):
    monkeypatch.setattr(progress_line, "OFTEN", 0.0)
    frame = trial(500)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    data = stream(lambda: table.to_reader(max_chunksize=100), memory=0)
    found = dplr(FORMULA, data, verbose=1, **SCHEMA)
    assert np.isfinite(found.coef).all()
    printed = capfd.readouterr().err
    assert "reading batches |" in printed
    assert printed.endswith("\r")
    assert "pass" not in printed
    quiet = dplr(FORMULA, data, **SCHEMA)
    assert np.isfinite(quiet.coef).all()
    assert capfd.readouterr().err == ""
