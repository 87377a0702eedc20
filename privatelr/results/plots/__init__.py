"""Plots of coefficients and their intervals."""
