"""Exact privacy losses of tiny cases, of which every outcome is listed."""
