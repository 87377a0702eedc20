"""Persons with several records: who a record is of, and how much it counts.

All records of a person together count at most as much as one record. Then what proofs use of a
record holds for a person (people.md 1): the gradients add up to at most L R.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privatelr.types import FloatArray, IntArray

_SAFETY = 1.0 - 2.0**-40
"""Factor of the weights of several records, so that rounding cannot make their sum exceed 1."""


def shares_of(sizes: IntArray, most: int) -> FloatArray:
    """Return how much each record counts ``(n,)``, whose person has so many records ``(n,)``.

    It is ``1 / max(k, size)`` for k records per person, `most`. So a person counts at most 1, and a
    person with k records or fewer counts as much for each record as everybody does.
    """
    largest = np.maximum(sizes, most)
    return np.where(largest > 1, _SAFETY, 1.0) / largest


def grouped(column: Any) -> tuple[IntArray, IntArray]:
    """Return the person of each record ``(n,)`` as a position, and the sizes ``(m,)`` of persons.

    Values are compared for equality only.
    """
    raise NotImplementedError
