"""What a fit scores records with: probabilities where its loss defines them, else margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privatelr.numerics.losses import Loss
    from privatelr.types import FloatArray


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale of scores.

    Attributes
    ----------
    name : str
        Of one score.
    linear : str
        Of one linear predictor.
    predictions : tuple of str
        What can be predicted, the default first.
    aliases : mapping of str to str
        What R calls them.
    fixed : float
        Where classes are split unless another threshold is asked for.
    lowest, highest : float
        Limits to thresholds.
    takes : str
        The same in words.
    """

    name: str
    linear: str
    predictions: tuple[str, ...]
    aliases: Mapping[str, str]
    fixed: float
    lowest: float
    highest: float
    takes: str


PredictionType: TypeAlias = Literal[
    "probabilities", "classes", "link", "margins", "response", "class", "prob"
]
"""What `predict` takes, R's names last."""
PROBABILITY = Scale(
    name="probability",
    linear="link",
    predictions=("probabilities", "classes", "link"),
    aliases={"response": "probabilities", "prob": "probabilities", "class": "classes"},
    fixed=0.5,
    lowest=0.0,
    highest=1.0,
    takes="a number from 0 to 1",
)
MARGIN = Scale(
    name="margin",
    linear="margin",
    predictions=("classes", "margins"),
    aliases={"response": "classes", "class": "classes"},  # as predict of kernlab and e1071
    fixed=0.0,
    lowest=-1e100,
    highest=1e100,
    takes="a margin, which is a number from -1e+100 to 1e+100",
)


def scale_of(loss: Loss) -> Scale:
    """The scale on which a loss scores records."""
    return MARGIN if loss.probability is None else PROBABILITY


def score(loss: Loss, link: FloatArray) -> FloatArray:
    """Scores ``(n,)`` from linear predictors ``(n,)``."""
    return link if loss.probability is None else loss.probability(link)
