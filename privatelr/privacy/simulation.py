"""Many draws of a noise law at once, in doubles: to study a law, never to release anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from privatelr.privacy.draws import Recipe
    from privatelr.types import FloatArray


class Arrays:
    """The arithmetic of `privatelr.privacy.draws`, elementwise."""

    def log(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.log(x))

    def sqrt(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(x))

    def cos_pi(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.cos(np.pi * x))

    def sin_pi(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.sin(np.pi * x))


def draw_many(law: Recipe, count: int, rng: np.random.Generator) -> FloatArray:
    """Independent draws ``(count, dimension)`` of a noise law, from its own recipe."""
    uniforms = 1.0 - rng.random((law.uniforms, count))  # never 0
    signs = rng.choice(np.array([-1, 1]), size=(law.signs, count))
    drawn = law.transform(list(uniforms), list(signs), Arrays())
    return np.column_stack([np.broadcast_to(x, count) for x in drawn])
