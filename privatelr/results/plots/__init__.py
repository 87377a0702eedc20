"""Plots of coefficients and their intervals."""

from privatelr.results.plots.forest import plot_coefficients
from privatelr.results.plots.forest_axis import (
    bars_of,
    drawings,
    powers_of_ten,
    ratio_ticks,
    typical_length,
    with_unit,
)
