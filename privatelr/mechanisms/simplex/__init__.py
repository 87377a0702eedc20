"""Entropy-penalised minimisation over the simplex of signed columns, released as draws."""

from privatelr.mechanisms.simplex.number_of_draws import (
    draws_for_epsilon,
    epsilon_for_draws,
    min_lambda,
    stability_of,
    suggest_lambda,
)
from privatelr.mechanisms.simplex.simplex_problem import SimplexFacts

__all__ = [
    "SimplexFacts",
    "draws_for_epsilon",
    "epsilon_for_draws",
    "min_lambda",
    "stability_of",
    "suggest_lambda",
]
