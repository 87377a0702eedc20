"""Fits whose noise is the same at every run, and that pose as private: for tests of views."""

from functools import partial

import numpy as np
import pytest
from frames_for_laws import clinic

import privatelr.fitting
from privatelr.privacy.noise import SeededRandomness

SEED = 3


class Repeated:
    """One stream of seeded numbers, posing as secret."""

    is_secret = True

    def __init__(self, seed=SEED):
        stream = SeededRandomness(seed)
        self.draw, self.uniforms = stream.draw, stream.uniforms


def drawn(fit, *given, noise_seed=SEED, **options):
    """What ``fit(*given, **options)`` returns under this noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(privatelr.fitting, "SystemRandomness", partial(Repeated, noise_seed))
        return fit(*given, **options)


def trial(n=3000, seed=0):
    """A clinic whose response depends on its columns."""
    frame, rng = clinic(n, seed), np.random.default_rng(1000 + seed)
    link = -3 + 0.05 * frame["age"] + 0.4 * frame["dose"] - 1.0 * (frame["smoker"] == "yes")
    return frame.assign(y=(rng.random(n) < 1 / (1 + np.exp(-link))).astype(int))
