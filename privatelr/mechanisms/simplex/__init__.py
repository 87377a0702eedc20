"""Entropy-penalised minimisation over the simplex of signed columns, released as draws."""

from privatelr.mechanisms.simplex.number_of_draws import (
    SimplexProblem,
    Stability,
    affordable_draws,
    draws_for_epsilon,
    epsilon_for_draws,
    min_lambda,
    rho_of_draw,
    simplex_stability,
    stability_of,
    suggest_lambda,
    tolerance_of,
)
from privatelr.mechanisms.simplex.simplex_release import (
    SimplexCalibration,
    Uniforms,
    calibrate_simplex,
    draw_histogram,
    minimiser_logs,
    release_simplex,
)
