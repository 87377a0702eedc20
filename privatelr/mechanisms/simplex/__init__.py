"""Entropy-regularised minimisation over the simplex of signed columns, released as draws."""
