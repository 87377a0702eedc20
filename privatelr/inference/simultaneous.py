"""Several combinations at once: the largest error of all, and tests of several equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privatelr.inference.error_law import PUBLIC_SEED, Matrices, carriers, mixture_of, solved_for
from privatelr.privacy.simulation import draw_many

if TYPE_CHECKING:
    from privatelr.inference.evidence import Evidence
    from privatelr.types import FloatArray

_DRAWS = 20_000


def joint_errors(evidence: Evidence, matrices: Matrices, contrasts: FloatArray) -> FloatArray:
    """Draws ``(c, m)`` of the errors of combinations ``(m, d)``; the same at every call."""
    rng = np.random.default_rng(PUBLIC_SEED)
    count, d, m = len(matrices.curvature), len(evidence.w), len(contrasts)
    each = max(1, _DRAWS // count)
    solved = solved_for(matrices.curvature, contrasts)
    carried = carriers(evidence, solved, contrasts)
    values, vectors = np.linalg.eigh(matrices.scores)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    gradients = rng.standard_normal((count, each, d)) @ np.swapaxes(root, 1, 2)
    noise = _noise(evidence, count, each, rng)
    shield = rng.standard_normal((count, each, d)) * np.sqrt(evidence.calibration.shield.variances)
    errors = gradients @ solved / np.sqrt(evidence.problem.n) + noise @ carried
    return np.asarray((errors + shield @ contrasts.T).reshape(-1, m))


def _noise(evidence: Evidence, count: int, each: int, rng: np.random.Generator) -> FloatArray:
    law = evidence.calibration.noise
    scales = mixture_of(law)
    if scales is None:
        return draw_many(law, count * each, rng).reshape(count, each, -1)
    variances = rng.choice(scales[0], (count, each, 1), p=scales[1])
    return np.asarray(np.sqrt(variances) * rng.standard_normal((count, each, law.dimension)))
