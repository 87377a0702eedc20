"""Labelled rows that cannot be longer than they say: dense, sparse, or in Dask."""
