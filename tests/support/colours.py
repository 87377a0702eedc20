"""Colours as eyes see them: linear light, distances, and contrast."""

from itertools import combinations

import numpy as np

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


def shares(colour):
    """Red, green and blue of a colour such as ``#0072b2``, from 0 to 1."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def linear(value):
    """Linear light of red, green and blue as a screen is told them."""
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
    seen = [lab(np.asarray(SEEN_BY[eyes]) @ linear(shares(colour))) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))


def contrast(one, other):
    """Contrast ratio of two colours by WCAG 2, from 1 to 21."""
    low, high = sorted(float(linear(rgb) @ [0.2126, 0.7152, 0.0722]) for rgb in (one, other))
    return (high + 0.05) / (low + 0.05)
