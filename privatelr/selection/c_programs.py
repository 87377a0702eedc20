"""The published programs ``lrsimple`` and ``svmsimple`` as one function.

The programs of Chaudhuri, Monteleoni and Sarwate (2011) read one file and print three lines of
coefficients, each followed by a return code: the plain fit, output perturbation and objective
perturbation. Their mechanisms are rows of `privatelr.mechanisms.registry` with the analysis
``"cms11"`` and without an intercept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from privatelr.errors import GuaranteeError, NotConvergedError
from privatelr.mechanisms import Problem, Request, calibrate, draw, mechanism_of
from privatelr.mechanisms.calibration import curvature_cost
from privatelr.numerics import Huber, Logistic
from privatelr.numerics.rows import DenseRows
from privatelr.numerics.solve import Newton
from privatelr.privacy import NonPrivate, PureDP, unless_seeded
from privatelr.privacy.accounting import Account, account_with
from privatelr.privacy.noise import Randomness
from privatelr.selection.matrix_text import Header, read_header, read_rows
from privatelr.types import FloatArray, Placement, row_radius

SMALLEST_EPSILON_PRIME = 1e-4
"""A smaller eps' is refused, because the noise of the published programs is then too large."""
_BOUND = 1.0
"""A row has at most this length; it has no intercept column."""


@dataclass(frozen=True, slots=True)
class CProgram:
    """A published program: its name, its model, and the numbers in the header of its file."""

    name: str
    model: str
    numbers: tuple[str, ...]


LRSIMPLE = CProgram("lrsimple", "logistic regression", ("n", "d", "lambda", "eps"))
SVMSIMPLE = CProgram(
    "svmsimple", "linear SVM with the Huber loss", ("n", "d", "lambda", "eps", "h")
)


@dataclass(frozen=True, slots=True)
class PrintedModel:
    """A model that a program can print as a line."""

    title: str
    placement: Placement
    private: bool


NON_PRIVATE = PrintedModel("non-private", "objective", private=False)
OUTPUT = PrintedModel("output", "output", private=True)
OBJECTIVE = PrintedModel("objective", "objective", private=True)
ALL = (NON_PRIVATE, OUTPUT, OBJECTIVE)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A printed line: coefficients ``(d,)`` and a return code, 0 if the solver converged."""

    wanted: PrintedModel
    coef: FloatArray
    returned: int

    def __str__(self) -> str:
        return " ".join([*(f"{number:.6f}" for number in self.coef), str(self.returned)])


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The results of a program for a file.

    Attributes
    ----------
    header : Header
    epsilon_prime : float
        The part of epsilon that remains for the noise of objective perturbation after the cost of
        the curvature.
    lines : tuple of Line
    """

    header: Header
    epsilon_prime: float
    lines: tuple[Line, ...]


def run_program(
    program: CProgram,
    stream: BinaryIO,
    randomness: Randomness,
    wanted: Sequence[PrintedModel] = ALL,
    *,
    ledger: Account | None = None,
) -> Result:
    """Read a file and compute the requested lines.

    Parameters
    ----------
    program : CProgram
    stream : binary file
        See `privatelr.selection.matrix_text`. Rows longer than 1 are shortened to 1.
    randomness : Randomness
        The source of noise, which is drawn for each private line in the order of `wanted`.
    wanted : sequence of PrintedModel
    ledger : Ledger, optional
        It is charged for all lines before the rows are read, as is every other open ledger.

    Raises
    ------
    MatrixFileError
        If the file does not have the format.
    GuaranteeError
        If too little of epsilon remains for objective perturbation, or a ledger does not cover the
        lines; both depend on the header alone.

    Notes
    -----
    **Privacy.** *Covered*: each private line by the header's epsilon, and two of them by twice
    that. *Neighbours*: files with the same header that differ in one row and its label.
    *Assumed public*: the header. *Not covered*: the line that is not private, errors about the
    body of the file, time and memory. The solver of a private line always goes on until it
    succeeds, because its failure would depend on the data; a plain fit that fails is a line of NaN.
    """
    header, pieces = read_header(stream, program.numbers)
    loss = Logistic() if header.h is None else Huber(header.h)
    facts = Problem(header.n, header.d, loss, row_radius(_BOUND, None))
    problem = facts.with_lambda(header.lambda_)
    left = header.epsilon - 2 * curvature_cost(problem)
    if OBJECTIVE in wanted and left < SMALLEST_EPSILON_PRIME:
        raise _too_little(left, problem, header.epsilon)
    private, plain = PureDP(header.epsilon), NonPrivate("none: this line is the plain fit")
    requests = [
        Request(target, model.placement, "cms11", header.lambda_, "keep")
        for model in wanted
        for target in [private if model.private else plain]
    ]
    calibrations = [calibrate(request, facts) for request in requests]
    _pay(account_with(ledger), program, header.epsilon, wanted, is_secret=randomness.is_secret)
    features, labels = read_rows(header, pieces)
    lines: list[Line] = []
    with np.errstate(all="ignore"):  # a warning about an overflow would reveal data
        rows = DenseRows(features, labels, bound=_BOUND, intercept=None)
        del features, labels  # they take as much memory as the rows
        for model, request, calibration in zip(wanted, requests, calibrations, strict=True):
            release = mechanism_of(request.placement, request.target).release
            draws = draw(calibration, randomness)
            try:
                coef = release(rows, calibration, draws, Newton()).coef
                lines.append(Line(model, coef, 0))
            except NotConvergedError:
                lines.append(Line(model, np.full(rows.d, math.nan), 1))
    return Result(header, left, tuple(lines))


def _pay(
    account: Account | None,
    program: CProgram,
    epsilon: float,
    wanted: Sequence[PrintedModel],
    *,
    is_secret: bool,
) -> None:
    """Charge a ledger, if there is one, with all lines at once; it refuses what is not private."""
    if account is None or not wanted:
        return
    if NON_PRIVATE in wanted:
        raise GuaranteeError(
            "ledger: the plain fit is not private and has no price; --released-only leaves it out."
        )
    guarantee = unless_seeded(PureDP(epsilon), not is_secret)
    account.charge(guarantee, (), program.name, times=len(wanted))


def _too_little(left: float, problem: Problem, epsilon: float) -> GuaranteeError:
    """The error for a too small eps'; it depends on the header alone."""
    least = 1.001 * (SMALLEST_EPSILON_PRIME + 2 * curvature_cost(problem))
    return GuaranteeError(
        f"eps'={left:.6g}: objective perturbation takes an eps' of {SMALLEST_EPSILON_PRIME:g} or "
        f"more, and eps' = eps - 2 log(1 + c / (n lambda)) with eps={epsilon:g}, "
        f"c={problem.loss.curvature_bound:g}, n={problem.n}, lambda={problem.lambda_:g}; raise "
        f"lambda, raise eps to {least:.4g}, or take --line output, which has no such condition."
    )


def record_of_result(program: CProgram, result: Result, seed: int | None) -> dict[str, Any]:
    """The lines and the public facts for JSON, with all digits, and with null for NaN."""
    header = result.header
    private = [line.wanted.private and seed is None for line in result.lines]
    facts = {"n": header.n, "d": header.d, "lambda": header.lambda_, "eps": header.epsilon}
    bend = {} if header.h is None else {"h": header.h}
    return {
        "program": program.name,
        **facts,
        "eps_prime": result.epsilon_prime,
        **bend,
        "eps_total": None if seed is not None else header.epsilon * sum(private),
        "lines": [
            {
                "line": line.wanted.title,
                "private": covered,
                "coefficients": [None if math.isnan(x) else float(x) for x in line.coef],
                "returned": line.returned,
            }
            for line, covered in zip(result.lines, private, strict=True)
        ],
    }
