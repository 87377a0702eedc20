"""Noise: its laws, exact draws from them, and the delta of Gaussian noise."""

from privatelr.privacy.noise.blockwise import MANY, BlockwiseDraw
from privatelr.privacy.noise.gaussian_delta import (
    RESOLUTION,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_sd,
    log_delta,
    log_delta_beside_pure,
    mu_beside_pure,
    pure_beside,
    smallest,
    smallest_of,
)
from privatelr.privacy.noise.noise_laws import (
    BALLS,
    DOWN,
    LAWS,
    NODES,
    UP,
    Arithmetic,
    BlockLaplace,
    CopiedNoise,
    GaussianNoise,
    LaplaceNoise,
    MatrixLaplace,
    NoiseLaw,
    NoNoise,
    RandomVector,
    RowLimits,
    SphericalLaplace,
    draw_many,
    mean_square,
    pure_part,
    shortest,
)
from privatelr.privacy.noise.randomness import (
    Draw,
    ExactDraw,
    FloatDraw,
    Randomness,
    SeededRandomness,
    ShiftedDraw,
    SystemRandomness,
    distance_from,
    normals,
)
