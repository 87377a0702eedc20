"""The study of errors beside other packages: the page shows what is stored, and its rows fit."""

from pathlib import Path

import numpy as np
import pytest
from studies import peer_errors as study
from studies.scale_tables import TABLES, read_table
from studies.stored import stored

PAGE = Path(__file__).resolve().parents[2] / "vignettes" / "peers.md"
RESULTS = stored("peer_errors")["results"]


def test_the_page_shows_what_is_stored():
    page = PAGE.read_text(encoding="utf-8")
    assert {*RESULTS} == {*study.SHOWN}
    for place in (0, 1):
        assert "\n".join(study.markdown(RESULTS, place)) in page


@pytest.mark.parametrize("name", study.SHOWN)
def test_nobody_is_nearer_at_the_same_epsilon(name):
    """In log loss, beyond two standard errors of either."""
    ours = RESULTS[name][study.OURS]
    for kind in (study.THEIRS, study.R):
        for eps, (_, (loss, error)) in RESULTS[name][kind].items():
            mine, own = ours[eps][1]
            assert mine <= loss + 2 * np.hypot(error, own)


def test_rows_of_peers_keep_the_length_that_they_are_told():
    table = TABLES["anes96"]
    frame = read_table("anes96", Path())
    x = study.rows(frame, table)
    lengths = np.sqrt((x**2).sum(axis=1))
    assert 0.5 * study.longest(table) < lengths.max() <= study.longest(table) * (1 + 1e-12)
    found = study.once(table, frame, 0, None)
    assert {*found} == {*study.MARKS}
    assert found[study.THEIRS] == {}
    for kind in (study.OURS, study.R, study.PLAIN):
        ((area, loss),) = found[kind]["10"]
        assert area > 0.9
        assert loss < 0.6
