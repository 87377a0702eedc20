"""Colours of plots can be told apart by everyone, and stand in one place."""

import re

import docs
import numpy as np
import pytest
from colours import SEEN_BY, nearest
from matplotlib import image
from structure import MODULES

from privatelr.plot_style import (
    BROKEN,
    COLOURS,
    HIGHLIGHT,
    MAIN,
    PARTS,
    QUIET,
    SHADES,
    SHADES_ON_DARK,
)
from privatelr.results.pages.forest import _OPACITIES as PART_OPACITIES

APART = 15.0
"""Distance in CIELAB; 2.3 is just noticeable side by side, and points of a plot are not that."""


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize(
    "colours",
    [
        COLOURS,
        SHADES,
        (MAIN, HIGHLIGHT),
        (MAIN, BROKEN, QUIET),
        (*SHADES, HIGHLIGHT),
        PARTS,
        (*SHADES_ON_DARK, HIGHLIGHT),
    ],
    ids=["series", "sizes", "budget", "verdicts", "a plan", "parts", "a dark plan"],
)
def test_colours_of_one_plot_are_told_apart(colours, eyes):
    assert nearest(colours, eyes) >= APART


def test_colours_stand_in_one_place():
    """Those of pages in HTML are in style sheets, and of plots in one module."""
    spelled = re.compile(r"\"#[0-9a-f]{6}\"")
    with_them = {path.stem for path in MODULES if spelled.search(path.read_text(encoding="utf-8"))}
    assert with_them == {"plot_style"}


def tones(colour, opacities):
    """What a colour looks like on white, by its opacities."""
    (whole,) = full([colour])
    return [whole * opacity + 255 * (1 - opacity) for opacity in opacities]


def full(colours):
    return [np.array([int(one[at : at + 2], 16) for at in (1, 3, 5)]) for one in colours]


def pixels_of(picture, shown, axis):
    """The pixels of each tone, in each line of a picture of the pages that has all of them."""
    pixels = 255 * image.imread(docs.ROOT / "vignettes" / picture)[..., :3]
    counts = np.transpose([(abs(pixels - tone).max(-1) < 6).sum(axis) for tone in shown])
    return counts[(counts > 0).all(1)]


AGAIN = "python -m tests.docs --pictures plots.md, with other noise or at another epsilon"


def test_the_three_parts_of_an_interval_are_seen_in_the_picture_of_a_page():
    parts = tones(MAIN, PART_OPACITIES.values())
    seen = pixels_of("plots-coefficients.png", parts, 1)
    assert len(seen) > 40, "two bars of more than twenty lines each"
    assert seen.min() >= 20, AGAIN  # ten on either side of the estimate


def test_the_parts_of_an_error_have_the_same_colours_in_every_plot_and_on_pages():
    np.testing.assert_allclose(tones(MAIN, PART_OPACITIES.values()), full(PARTS), atol=1)
