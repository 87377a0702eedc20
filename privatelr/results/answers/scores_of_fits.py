"""The scores of the same records by several fits, which `choose` compares; private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from privatelr import design
from privatelr.errors import SchemaError
from privatelr.results.answers.scored_records import Evaluation, scores_of_table
from privatelr.results.fit_record import ModelRecord
from privatelr.sources import Batch
from privatelr.types import FloatArray


def scored(opened: Mapping[str, Evaluation]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Linear predictors and labels ``(n,)`` of each of several fits; private.

    Of partitions and streams all fits score the same pass, so that no record is another one to the
    next fit. They need 8 bytes for each record and fit in this process.
    """
    first = next(iter(opened.values()))
    if not first.is_in_parts:
        yield from (evaluation.scores() for evaluation in opened.values())
        return
    fits = [evaluation.fit for evaluation in opened.values()]
    formulas = [fit.spec.formula for fit in fits]
    read = dict.fromkeys(name for one in formulas for name in (*one.scored, *one.selecting))
    parts = first.data.over(tuple(read), partial(_of_part, fits))
    labels = np.concatenate([label for label, _ in parts])
    if len(labels) != first.n:
        raise SchemaError(design.CHANGED)
    for place in range(len(fits)):
        yield np.concatenate([links[place] for _, links in parts]), labels


def _of_part(fits: Sequence[ModelRecord], part: Batch) -> tuple[FloatArray, list[FloatArray]]:
    links, label = [], np.zeros(0)
    for fit in fits:  # of one response
        link, label = scores_of_table(fit, part, part)
        links.append(link)
    return label, links
