"""What ``lrsimple`` and ``svmsimple`` compute: the two published programs as one function.

The programs of Chaudhuri, Monteleoni and Sarwate (2011) read one file and print three lines of
coefficients, each followed by a return code: the plain fit, output perturbation and objective
perturbation. Their mechanisms are rows of `privatelr.mechanisms.registry` with the analysis
``"cms11"`` and without an intercept.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from privatelr.cli.c_programs.matrix_text import MatrixFileError, read_header, read_rows
from privatelr.errors import GuaranteeError, NotConvergedError
from privatelr.mechanisms import Facts, Mechanism, Problem, Request, calibrate, draw, find_mechanism
from privatelr.mechanisms.calibration import Calibration, curvature_cost, penalty_costing
from privatelr.numerics import Huber, Logistic, Loss
from privatelr.numerics.rows import DenseRows, row_lengths
from privatelr.numerics.solve import Newton
from privatelr.privacy import Guarantee, NonPrivate, PureDP
from privatelr.privacy.noise import Randomness
from privatelr.types import FloatArray, Placement, RowLimit, Rows

if TYPE_CHECKING:
    from privatelr.cli.c_programs.matrix_text import Header

SMALLEST_EPSILON_PRIME = 1e-4
"""The least eps' of the published programs: with less of it, the noise is of no use."""
_LIMIT = RowLimit(1.0, None)


@dataclass(frozen=True, slots=True)
class CProgram:
    """A published program: its name, its model, the header of its file, its loss."""

    name: str
    model: str
    numbers: tuple[str, ...]
    loss: Callable[[Header], Loss]


def _logistic(header: Header) -> Loss:
    return Logistic()


def _huber(header: Header) -> Loss:
    return Huber() if header.h is None else Huber(header.h)


LRSIMPLE = CProgram("lrsimple", "logistic regression", ("n", "d", "lambda", "eps"), _logistic)
SVMSIMPLE = CProgram(
    "svmsimple", "linear SVM with the Huber loss", ("n", "d", "lambda", "eps", "h"), _huber
)


@dataclass(frozen=True, slots=True)
class PrintedModel:
    """One of the lines a program can print."""

    title: str
    placement: Placement
    private: bool


NON_PRIVATE = PrintedModel("non-private", "objective", private=False)
OUTPUT = PrintedModel("output", "output", private=True)
OBJECTIVE = PrintedModel("objective", "objective", private=True)
ALL = (NON_PRIVATE, OUTPUT, OBJECTIVE)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Coefficients ``(d,)`` and the return code, 0 when converged."""

    wanted: PrintedModel
    coef: FloatArray
    returned: int

    def __str__(self) -> str:
        return " ".join([*(f"{number:.6f}" for number in self.coef), str(self.returned)])


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a program has to say about a file.

    Attributes
    ----------
    header : Header
    epsilon_prime : float
        What the curvature leaves of epsilon for the noise of objective perturbation.
    lines : tuple of Line
    """

    header: Header
    epsilon_prime: float
    lines: tuple[Line, ...]


def run_program(
    program: CProgram,
    stream: BinaryIO,
    randomness: Randomness,
    lines: Sequence[PrintedModel] = ALL,
    *,
    longest: float = math.inf,
) -> Result:
    """Read a file and compute the lines that are wanted.

    Parameters
    ----------
    program : Program
    stream : binary file
        See `privatelr.cli.c_programs.matrix_text`.
    randomness : Randomness
        Noise is drawn for each private line, in the order of `lines`.
    lines : sequence of Wanted
    longest : float
        Refuse a row that is longer than this; other rows longer than 1 are shortened to 1.

    Raises
    ------
    MatrixFileError
        If the file is not of the format, or a row is longer than `longest`.
    GuaranteeError
        If too little of epsilon is left for objective perturbation; a function of the header.

    Notes
    -----
    **Privacy.** *Covered*: each private line by the header's epsilon, and two of them by twice
    that. *Neighbours*: files with the same header that differ in one row and its label.
    *Assumed public*: the header. *Not covered*: the line that is not private, errors about the
    body of the file, time and memory.
    """
    header, pieces = read_header(stream, program.numbers)
    facts = Facts(header.n, header.d, program.loss(header), _LIMIT.radius)
    problem = facts.with_lambda(header.lambda_)
    left = header.epsilon - 2 * curvature_cost(problem)
    if OBJECTIVE in lines:
        _require_epsilon_prime(left, problem, header.epsilon)
    plans = [_plan(line, header, facts) for line in lines]
    features, labels = read_rows(header, pieces, _size(stream))
    with np.errstate(all="ignore"):  # an overflow is a fact about the data
        if longest < math.inf:
            _require_short(features, header, longest)
        rows = DenseRows(features, labels, bound=_LIMIT.bound, intercept=_LIMIT.intercept)
        del features, labels  # as large as the rows
        found = tuple(_line(plan, rows, randomness) for plan in plans)
    return Result(header, left, found)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A line to be, all of it that does not depend on the data."""

    wanted: PrintedModel
    mechanism: Mechanism
    calibration: Calibration


def _plan(wanted: PrintedModel, header: Header, facts: Facts) -> _Plan:
    target: Guarantee = NonPrivate("none: this line is the plain fit")
    if wanted.private:
        target = PureDP(header.epsilon)
    request = Request(target, wanted.placement, "cms11", header.lambda_, "keep")
    return _Plan(wanted, find_mechanism(request), calibrate(request, facts))


def _line(plan: _Plan, rows: Rows, randomness: Randomness) -> Line:
    """Draw and release; a plain fit that stops short is a line of NaN with return code 1.

    A private line never stops short: whether a solver succeeds is a function of the data.
    """
    draws = draw(plan.calibration, randomness)
    try:
        release = plan.mechanism.release(rows, plan.calibration, draws, Newton())
    except NotConvergedError:
        return Line(plan.wanted, np.full(rows.d, math.nan), 1)
    return Line(plan.wanted, release.coef, 0)


def _require_epsilon_prime(left: float, problem: Problem, epsilon: float) -> None:
    """Refuse what the published programs refuse; depends on the header alone."""
    if left >= SMALLEST_EPSILON_PRIME:
        return
    c = problem.loss.curvature_bound
    bend = "".join(f" of {name}={value:g}" for name, value in problem.loss.parameters.items())
    enough = _above(SMALLEST_EPSILON_PRIME + 2 * curvature_cost(problem))
    remedies = [f"eps to {enough:.4g}"]
    if epsilon > SMALLEST_EPSILON_PRIME:
        share = min((epsilon - SMALLEST_EPSILON_PRIME) / 2, 700.0)
        least = _above(penalty_costing(problem, share) / problem.n)
        remedies.insert(0, f"lambda to {least:.4g}")
    raise GuaranteeError(
        f"eps'={left:.6g}: objective perturbation takes an eps' of {SMALLEST_EPSILON_PRIME:g} or "
        f"more, and eps' = eps - 2 log(1 + c / (n lambda)) with eps={epsilon:g}, c={c:g}{bend}, "
        f"n={problem.n}, lambda={problem.lambda_:g}; raise {' or '.join(remedies)}, or take "
        "--line output, which has no such condition."
    )


def _above(number: float) -> float:
    """A number of four digits, no smaller."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 3)
    return math.ceil(number / unit) * unit


def _require_short(features: FloatArray, header: Header, longest: float) -> None:
    """Refuse a row that is too long; depends on the data, as the help says."""
    for row in np.flatnonzero(row_lengths(features) > longest)[:1]:
        first = header.length + int(row) * header.d + 1
        raise MatrixFileError(
            f"row {row + 1} (numbers {first} to {first + header.d - 1}): it is longer than "
            f"{longest:.9g}, which --strict refuses; scale the features, or leave --strict out, "
            "and rows are shortened to 1."
        )


def _size(stream: BinaryIO) -> int | None:
    """Bytes of a regular file, or None for what cannot tell."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, AttributeError):
        return None
    return (found.st_size or None) if stat.S_ISREG(found.st_mode) else None
