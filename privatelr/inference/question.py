"""The choices of inference in one record, which is checked once and then passed on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    require_choice,
    require_flag,
    require_number,
    show,
)
from privatelr.inference.error_distribution import Matrices
from privatelr.inference.noisy_moments import (
    MODES,
    TARGETS,
    curvature_left,
    evidence_of,
    is_exact,
    plausible,
    plug_in,
    quality,
    step_of,
)
from privatelr.mechanisms import Release

STANDARD_LEVEL = 0.95
BOOTSTRAP = "bootstrap"
METHODS = ("sandwich", "wkl", BOOTSTRAP)


def read_level(level: Any, argument: str = "level") -> float:
    """Return a level of confidence as a number; raises `ArgumentError`."""
    takes = "a number from 0.5 to 0.9999, such as 0.95"
    return require_number(ArgumentError, argument, level, takes, at_least=0.5, at_most=0.9999)


@dataclass(frozen=True, slots=True)
class Question:
    """How to infer, checked as far as that is possible without a release.

    Attributes
    ----------
    level : float
        Level of confidence.
    mode : {None, "posterior", "conservative", "plug-in"}
        How the noise in the matrices is taken into account; `quality` chooses the default.
    target : {"penalised", "unpenalised", None}
        The minimiser of the expected objective, or of the expected loss without its penalty. None
        is the one that `quality` chooses, which is the default of the tables of a fit.
    method : {"sandwich", "wkl", "bootstrap"}
        ``"wkl"`` is the method of Wang, Kifer and Lee (2019): it uses the released matrices, with
        eigenvalues below lambda raised to lambda in both.
    simultaneous : bool
        Whether all intervals are to hold together; p-values are then adjusted alike.
    covariates
        What the bootstrap simulates records from.
    withheld : bool
        Whether the answer has estimates alone. `answerable` decides it: an interval of a penalised
        coefficient looks precise where the penalty is large, so it has to be asked for by name.
    untested : bool
        Whether nothing is tested. `answerable` decides it: a variable without an effect may have a
        penalised coefficient, or take over that of a column that the noise hides.

    Raises
    ------
    ArgumentError
        If a choice is unknown, or does not go with the others.

    Examples
    --------
    >>> from privatelr.inference import Question
    >>> asked = Question(level=0.9, target="unpenalised", simultaneous=True)
    >>> asked.mode is None, asked.is_usual  # the release will choose how its noise is counted
    (True, False)
    """

    level: float = STANDARD_LEVEL
    mode: Any = None
    target: Any = "penalised"
    method: str = "sandwich"
    simultaneous: bool = False
    covariates: Any = None
    withheld: bool = False
    untested: bool = False

    @property
    def is_usual(self) -> bool:
        """Whether a fit without inference has the answer: its estimates, as they were released."""
        is_released = self.target in (None, "penalised")
        return is_released and replace(self, target=None) == replace(USUAL, level=self.level)

    def __post_init__(self) -> None:
        if self.target is not None:
            require_choice(ArgumentError, "target", self.target, TARGETS)
        require_choice(ArgumentError, "method", self.method, METHODS)
        takes = "True (the intervals hold together) or False (each holds by itself)"
        simultaneous = require_flag("simultaneous", self.simultaneous, takes)
        object.__setattr__(self, "level", read_level(self.level))
        object.__setattr__(self, "simultaneous", simultaneous)
        if self.method == BOOTSTRAP and self.mode is not None:
            raise ArgumentError(
                f"mode={show(self.mode)}: method={BOOTSTRAP!r} takes mode=None, since it reads no "
                "information matrix that a mode would be about."
            )
        if self.method == BOOTSTRAP and self.simultaneous:
            raise ArgumentError(
                f"simultaneous=True: method={BOOTSTRAP!r} gives each interval by itself; take "
                "method='sandwich'."
            )
        if self.method != BOOTSTRAP and self.covariates is not None:
            raise ArgumentError(
                f"covariates: method={show(self.method)} looks at no covariates; they are what "
                f"method={BOOTSTRAP!r} simulates records from."
            )
        if self.mode is not None:
            require_choice(ArgumentError, "mode", self.mode, MODES)
        if self.method == "wkl" and self.mode not in (None, "plug-in"):
            raise ArgumentError(
                f"mode={self.mode!r}: method='wkl' takes mode=None, since it has one way of its "
                "own."
            )
        if self.method == "wkl" and self.target == "unpenalised":
            raise ArgumentError(
                "target='unpenalised': method='wkl' takes target='penalised', since the published "
                "method has no step that takes the penalty's bias off."
            )


PENALISED, USUAL = Question(), Question(target=None)
"""What functions of a release answer by default, and what the tables of a fit do."""


def level_of(alpha: Any) -> float:
    """Return the level of confidence ``1 - alpha``; raises `ArgumentError`."""
    takes = "a number from 0.0001 to 0.5, such as 0.05 for intervals at 95%"
    share = require_number(ArgumentError, "alpha", alpha, takes, at_least=1e-4, at_most=0.5)
    return min(1 - share, 0.9999)


def answerable(release: Release, asked: Question) -> Question:
    """Return the question with its default mode and target replaced by those for this release.

    Raises
    ------
    GuaranteeError
        If inference was not requested, or what was released cannot carry the target.

    Examples
    --------
    >>> from privatelr import dplr, load_dataset, load_schema
    >>> from privatelr.inference import Question, answerable
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> fit = dplr("vote ~ age + selfLR", votes, eps=0, spend="inference", **public)  # no noise
    >>> asked = answerable(fit.release, Question(target=None))
    >>> asked.mode, asked.target  # there is no noise to take into account
    ('plug-in', 'unpenalised')
    """
    known, is_default = quality(release), asked.target is None
    target = asked.target or known.target
    is_other = asked.mode == "conservative" or asked.method == "wkl"
    if is_default and known.has_probabilities and is_other:
        chosen = "mode='conservative'" if asked.mode == "conservative" else "method='wkl'"
        raise GuaranteeError(
            f"{chosen}: it knows the penalised coefficients alone, and other answers of the fit "
            "are about those without the penalty; add target='penalised' if you want that."
        )
    mode = asked.mode or known.mode_for(target)
    if asked.method == "wkl" or is_exact(evidence_of(release)):
        mode = "plug-in"
    if target == "unpenalised" and mode == "conservative":
        raise GuaranteeError(
            "target='unpenalised': without the penalty no limit holds for every dataset, which is "
            "what mode='conservative' is for; take mode='posterior', or target='penalised'."
        )
    if target == "unpenalised" and known.has_thin_number:
        raise GuaranteeError(
            "target='unpenalised': the noise hides how much a column varies, which summary() "
            "names, so that neither its coefficient nor those of columns that go together with it "
            "are known without the penalty; take target='penalised', or fit with narrower bounds "
            "for it, which suggest_bounds can find."
        )
    if target == "unpenalised" and not known.corrects_bias:
        bias = known.relative_bias
        size = f"{bias:.0%}" if bias <= 1 else "more than all of them"
        size = size if math.isfinite(bias) else "an unknown size"
        raise GuaranteeError(
            f"target='unpenalised': the penalty shrinks the coefficients by {size}, which one "
            "step does not correct; take target='penalised', or fit with a smaller lambda_."
        )
    is_shrunk = is_default and target == "penalised"
    return replace(
        asked,
        mode=mode,
        target=target,
        withheld=asked.withheld or (is_shrunk and known.has_probabilities),
        untested=asked.untested or is_shrunk or (is_default and known.hides_numbers),
    )


def matrices_for(release: Release, asked: Question) -> Matrices:
    """Return the curvatures and scores to average over, with what one step changes.

    The step without the penalty is ``lambda H0^-1 w``, by the curvature at w. It is off by a second
    order, which is as if the gradient ``lambda w`` were known up to a share of itself, and leads to
    where both matrices are smaller. The more noise they have, the more of the curvatures to average
    over are that small already. The plug-in mode counts neither the step nor the noise.
    """
    return after_step(release, asked, matrices_without_step(release, asked))


def after_step(release: Release, asked: Question, found: Matrices) -> Matrices:
    """Return what `matrices_for` does of those without the step, which are the same if none is."""
    if asked.target != "unpenalised" or asked.mode == "plug-in":
        return found
    evidence, known = evidence_of(release), quality(release)
    left = curvature_left(evidence) ** (1 / (1 + known.noise_to_signal**2))
    penalty = evidence.penalty
    off = step_of(evidence)[1] * evidence.floor * evidence.drawn
    return Matrices(
        left * (found.curvature - penalty) + penalty,
        left * found.scores + evidence.problem.n * np.outer(off, off),
    )


def matrices_without_step(release: Release, asked: Question) -> Matrices:
    """Return the curvatures and scores to average over, as the release and its noise leave them."""
    evidence = evidence_of(release)
    if asked.method == "wkl":
        return plug_in(evidence, scores_floor=evidence.floor)
    return plug_in(evidence) if asked.mode == "plug-in" else _plausible(release)


@lru_cache(maxsize=16)
def _plausible(release: Release) -> Matrices:
    """Return draws from the posterior of a release, which are made once and kept."""
    return plausible(evidence_of(release), quality(release).noise_to_signal)
