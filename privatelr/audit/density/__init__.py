"""Exact privacy losses, from densities at outputs."""
