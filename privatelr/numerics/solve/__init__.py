"""Minimisers with a certificate: a bound on the gradient at what they return."""
