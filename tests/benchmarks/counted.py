"""How often a fit reads its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from .peers import ours

if TYPE_CHECKING:
    from typing import Any

    from privatelr.types import Kernel, Rows

    from .problems import Problem


def passes(problem: Problem) -> dict[str, float]:
    """Folds over all rows, and what the folds over some of them add up to, in passes.

    Rows are counted where they are folded, so the fit is the one that is timed. What it does
    with rows outside of folds, as where there are fewer rows than columns, is not seen.
    """
    kind, read = type(problem.rows), []
    fold = kind.fold

    def counted(rows: Rows, kernel: Kernel) -> tuple[Any, ...]:
        read.append(rows.n)
        return fold(rows, kernel)

    with patch.object(kind, "fold", counted):
        ours(problem)
    full = sum(size == problem.n for size in read)
    return {"full": full, "thinned": sum(read) / problem.n - full}
