"""The study of suggested bounds: its stored results are those that the page shows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from studies import suggested_bounds as study
from studies.scale_tables import TABLES, Table
from studies.stored import stored

PAGE = Path(__file__).resolve().parents[2] / "vignettes" / "choosing-bounds.md"


@pytest.fixture(scope="module")
def results():
    return stored("suggested_bounds")["results"]


def test_the_page_shows_what_is_stored(results):
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(study.markdown(results, "area")) in page
    accuracy, area = (study.least_shares(results, what) for what in ("accuracy", "area"))
    for said in (accuracy["share"], area["share"], area["above a guess"]):
        assert f"{said:.1%}" in page
    assert f"{accuracy['above a guess']:.0%}" in page


def test_suggested_bounds_reach_95_percent_of_oracle_bounds(results):
    """As was judged, on all tables; on two of them also of the area above a guess."""
    assert {*results} == {"adult", "bank", "credit"}
    assert study.least_shares(results, "accuracy")["share"] >= 0.95
    assert study.least_shares(results, "area")["share"] >= 0.95
    two = {name: results[name] for name in ("adult", "bank")}
    assert study.least_shares(two, "area")["above a guess"] >= 0.95


def test_the_table_of_cards_is_what_its_declaration_says():
    frame = study.credit_cards()
    assert {*frame} == {*study.CREDIT.bounds, *study.CREDIT.levels, "positive"}
    assert len(frame) == study.CARDS
    assert 0.15 < frame["positive"].mean() < 0.25
    assert (frame["bill"] < 0).any()


def test_loose_bounds_hold_the_exact_ones():
    frame = pd.DataFrame({"a": [1.0, 7.0], "b": [-3.0, 2.0]})
    exact = study.exact_bounds(frame, ["a", "b"])
    assert exact == {"a": (1.0, 7.0), "b": (-3.0, 2.0)}
    assert study.loose_bounds(exact, 10) == {"a": (0.0, 70.0), "b": (-30.0, 30.0)}


def test_a_small_run(monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 10, 2000)})
    frame["positive"] = frame["a"] + rng.normal(0, 1, 2000) > 5
    monkeypatch.setitem(TABLES, "made_up", Table("choice", 2000, lambda _: frame, {"a": (0, 10)}))
    monkeypatch.setattr(study, "data_home", lambda: Path())
    found = study.summary(study.measure("made_up", "dplr", 5.0, 2))
    assert len(found) == 2 + 2 * len(study.FACTORS)
    accuracy, area = found["suggested from 100 times"]
    assert accuracy[0] > 0.8
    assert area[0] > 0.9
