"""Exact privacy losses of mechanisms on tiny datasets, by a list of all outcomes."""
