"""Colours of plots can be told apart by everyone, and stand in one place."""

import re
from itertools import combinations

import numpy as np
import pytest
from structure import MODULES

from privatelr.plot_style import BROKEN, COLOURS, HIGHLIGHT, MAIN, QUIET, SHADES

# Machado, Oliveira and Fernandes (2009), severity 1: what the three kinds of dichromats see
SEEN_BY = {
    "everybody": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
APART = 15.0
"""Distance in CIELAB; 2.3 is just noticeable side by side, and points of a plot are not that."""


def linear(colour):
    """Linear RGB of a colour such as ``#0072b2``."""
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of linear RGB under D65."""
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ np.clip(rgb, 0, 1)
    f = xyz / [0.9505, 1.0, 1.089]
    f = np.where(f > (6 / 29) ** 3, np.cbrt(f), f / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colours, eyes):
    """The smallest distance of two of these colours, for these eyes."""
    seen = [lab(np.asarray(SEEN_BY[eyes]) @ linear(colour)) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))


@pytest.mark.parametrize("eyes", SEEN_BY)
@pytest.mark.parametrize(
    "colours",
    [COLOURS, SHADES, (MAIN, HIGHLIGHT), (MAIN, BROKEN, QUIET), (*SHADES, HIGHLIGHT)],
    ids=["series", "sizes", "parts", "verdicts", "a plan"],
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
