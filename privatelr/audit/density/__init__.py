"""Exact privacy losses of releases, computed from densities."""
