"""Noise laws, and exact draws from them."""

from privatelr.privacy.noise.block_norms import BlockLaplace
from privatelr.privacy.noise.blockwise import MANY, BlockwiseDraw
from privatelr.privacy.noise.exact_draws import (
    Arithmetic,
    Balls,
    Draw,
    ExactDraw,
    FloatDraw,
    RandomVector,
)
from privatelr.privacy.noise.gaussian_delta import (
    RESOLUTION,
    gaussian_epsilon,
    gaussian_sd,
    log_delta,
    smallest,
)
from privatelr.privacy.noise.noise_laws import (
    GaussianNoise,
    NoiseLaw,
    NoNoise,
    SphericalLaplace,
    draw_many,
    mean_square,
    shortest,
)
from privatelr.privacy.noise.randomness import (
    Randomness,
    SeededRandomness,
    SystemRandomness,
    normals,
)
