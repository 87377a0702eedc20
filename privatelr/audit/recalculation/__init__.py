"""Calibrations and noise worked out a second time, by other code and other packages."""
