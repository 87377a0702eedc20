"""The public facts that a mechanism may use before it reads the data.

Fits to strata (``by="sex"``) are one fit to rows of blocks, and cost what one fit costs. *Theorem.*
Let K fits have independent noise and the same calibration, and let a record be a row of length R or
less in the fit of its own stratum and a row of zeros in all others. If neighbours replace a record,
or all records of a person in any strata, all K fits together keep the guarantee that one of them
has. What minimisation leaves open is counted for every fit that neighbours may change
(`Problem.touched`), and sums such as the matrices of inference and counts of scores for two
(`Problem.moved`). The proof is in theory.md#strata.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from privatelr.errors import GuaranteeError
from privatelr.numerics import Loss
from privatelr.privacy import REPLACE_ONE, REPLACE_PERSON, Neighbours
from privatelr.types import Block

UP = 1 + 2.0**-50
"""Rounds a positive number up."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Public facts about a fit, and its penalty once that is chosen.

    Attributes
    ----------
    n, d : int
        The numbers of records (or of persons) and of columns, the intercept included.
    loss : Loss
        The loss of a record, as a function of its margin.
    radius : float
        R, the largest length of a row, the intercept entry included (theory.md#setting).
    blocks : tuple of Block
        The blocks of columns whose product the design is, in order; empty if it is not a product.
    lambda_ : float
        The penalty of the mean objective; 0 until it is chosen.
    weighted : bool
        Whether a record may count less than another one (`privatelr.numerics.rows.row_bounds`).
    offset : float
        Largest size of what is added to a linear predictor. No noise depends on it
        (theory.md#weights-offsets-and-priors); only the accuracy to which minima can be computed
        does.
    centre : float
        At least the length of the coefficients w0 to which the penalty draws. A term
        ``-Lambda w0.w`` in the objective is a known part of the tilt: it moves the law of a release
        for all data alike, so that no noise depends on it either.
    stiffness : float
        At least the trace of what a prior adds to the second derivative of the sum form. It is
        positive semidefinite and the same for all data. So curvatures are at least those without
        it, and no noise depends on it (theory.md#weights-offsets-and-priors).
    persons : bool
        Whether one of the n is a person with any number of records, whose weights sum to at most
        1: neighbours replace all of them (theory.md#persons). Their gradients add up to
        at most L R, but their curvatures in several directions to more than those of a record.
    touched : int
        How many fits neighbours may change at once, of those that are released together and are
        all calibrated like this one: 2 for fits to strata, as a record may leave one stratum and
        join another, and all of them for persons (theory.md#strata).
    classes : int
        K. With 2 the loss is a function of one margin, and one vector of coefficients is released.
        With more there is one vector for each class, and the loss is minus the logarithm of the
        softmax of a record's own class (`calibration.softmax`).
    """

    n: int
    d: int
    loss: Loss
    radius: float
    blocks: tuple[Block, ...] = ()
    lambda_: float = 0.0
    weighted: bool = False
    offset: float = 0.0
    centre: float = 0.0
    stiffness: float = 0.0
    persons: bool = False
    touched: int = 1
    classes: int = 2

    def __post_init__(self) -> None:
        if not (self.n >= 1 and self.d >= 1 and self.radius > 0):
            raise GuaranteeError(
                f"a fit with n={self.n}, d={self.d}, radius={self.radius}: takes n and d from 1 "
                "and a radius above 0."
            )
        for name in ("offset", "centre", "stiffness"):
            bound = getattr(self, name)
            if not 0 <= bound < math.inf:
                raise GuaranteeError(f"{name}={bound}: takes a finite bound from 0.")
        beside = self.touched > 1, self.centre > 0, self.stiffness > 0
        if self.is_multinomial and (any(beside) or self.loss.name != "logistic"):
            raise GuaranteeError(
                f"classes={self.classes}: several classes take the logistic loss, one stratum, and "
                "no prior."
            )
        if self.blocks and sum(block.size for block in self.blocks) != self.d:
            raise GuaranteeError(f"blocks={self.blocks}: their sizes take the sum d={self.d}.")

    def with_lambda(self, lambda_: float) -> Problem:
        """Return the same facts with this penalty."""
        return replace(self, lambda_=lambda_)

    @property
    def neighbours(self) -> Neighbours:
        """What neighbouring data differ in."""
        return REPLACE_PERSON if self.persons else REPLACE_ONE

    @property
    def moved(self) -> int:
        """Of how many records the sums of all fits that are touched move together, at most."""
        return min(self.touched, 2)

    @property
    def is_multinomial(self) -> bool:
        """Whether there are more than two classes, each with coefficients of its own."""
        return self.classes > 2

    @property
    def size(self) -> int:
        """The number of coefficients that are released."""
        return self.d * self.classes if self.is_multinomial else self.d

    @property
    def pull(self) -> float:
        """The largest sum of the sizes of a record's slopes: L, or 2 for several classes."""
        return 2.0 if self.classes > 2 else self.loss.slope_bound

    @property
    def reach(self) -> float:
        """``L R``, the largest length that one row adds to the gradient of the sum form.

        For several classes it is ``sqrt(2) R``, as slopes are a class less a distribution on them.
        """
        slope = math.sqrt(2.0) * UP if self.is_multinomial else self.loss.slope_bound
        return slope * self.radius

    @property
    def penalty(self) -> float:
        """Lambda, the penalty of the sum form: ``n lambda_``."""
        return self.n * self.lambda_

    @property
    def kappa(self) -> float:
        """``R**2 / Lambda``, how much one row can add to the curvature (theory.md#lemma-1)."""
        return self.radius**2 / (self.n * self.lambda_) if self.lambda_ > 0 else math.inf
