"""Colours of plots can be told apart by everyone, and stand in one place."""

import re

import pytest
from colours import SEEN_BY, nearest
from structure import MODULES

from privatelr.plot_style import BROKEN, COLOURS, HIGHLIGHT, MAIN, QUIET, SHADES
from privatelr.results.pages.coefficient_table import TONES

APART = 15.0
"""Distance in CIELAB; 2.3 is just noticeable side by side, and points of a plot are not that."""


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize(
    "colours",
    [COLOURS, SHADES, (MAIN, HIGHLIGHT), (MAIN, BROKEN, QUIET), (*SHADES, HIGHLIGHT), TONES],
    ids=["series", "sizes", "parts", "verdicts", "a plan", "a page"],
)
def test_colours_of_one_plot_are_told_apart(colours, eyes):
    assert nearest(colours, eyes) >= APART


def test_red_and_green_would_not_be():
    assert nearest(("#d62728", "#2ca02c"), "everybody") >= APART
    assert nearest(("#c0504d", "#7f8f3f"), "deuteranopia") < APART


def test_colours_stand_in_one_place():
    """Those of pages in HTML are in style sheets, and of plots in one module."""
    spelled = re.compile(r"\"#[0-9a-f]{6}\"")
    with_them = {path.stem for path in MODULES if spelled.search(path.read_text(encoding="utf-8"))}
    assert with_them <= {"plot_style", "coefficient_table"}
