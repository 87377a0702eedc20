"""The commands ``lrsimple`` and ``svmsimple``: what they take, print and promise."""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

from privatelr.cli.c_programs.c_models import (
    ALL,
    LRSIMPLE,
    NON_PRIVATE,
    OBJECTIVE,
    OUTPUT,
    SVMSIMPLE,
    run_program,
)
from privatelr.cli.c_programs.matrix_text import MatrixFileError
from privatelr.cli.outcomes import DONE, Parser, reason_of, run_safely
from privatelr.errors import PrivacyWarning
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness

if TYPE_CHECKING:
    from privatelr.cli.c_programs.c_models import CProgram, Result

STRICT_LENGTH = 1 + 1e-6
_DESCRIPTION = """\
Private {model} of a file in the published format:
numbers separated by any white space, first {numbers}, then n rows of
d features, then n labels, each -1 or 1.

Prints three lines: the plain fit, output perturbation, objective perturbation.
Each is d coefficients and a return code, 0 when converged (a plain fit that
did not converge is d times nan, and 1; a private line always is 0). There is no
intercept, and rows longer than 1 are shortened to 1."""
_EPILOG = """\
what is private:
  The first line is not; --released-only leaves it out. Each of the other two
  alone is eps-differentially private when one row and its label are replaced;
  to publish both costs 2 eps, and so does each further run. The header is taken
  to be public. An error about the rest of the file, or a refusal by --strict,
  depends on the data, and nothing covers it: do not publish it.

exit status:
  0 done; 1 refused, where eps' is below 1e-4; 2 wrong command line or file, and
  a row that --strict does not take; 3 the lines could not be written;
  130 interrupted; 141 the reader of the lines left before their end

Time grows with n d squared, and with d cubed: minutes where d is in the thousands.

example:
  {command} --released-only data.txt"""


def lrsimple(arguments: Sequence[str] | None = None) -> int:
    """The command ``lrsimple``; returns the exit status."""
    return _main(LRSIMPLE, arguments)


def svmsimple(arguments: Sequence[str] | None = None) -> int:
    """The command ``svmsimple``; returns the exit status."""
    return _main(SVMSIMPLE, arguments)


def _main(program: CProgram, arguments: Sequence[str] | None) -> int:
    description, epilog = _words(program, program.name)
    parser = Parser(prog=program.name, description=description, epilog=epilog)
    _add_arguments(parser)

    def run() -> int:
        chosen, unknown = parser.parse_known_args(arguments)
        if unknown:
            parser.refuse(unknown)
        return _run(program, chosen)

    return run_safely(program.name, run)


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommands ``lrsimple`` and ``svmsimple``."""
    for program in (LRSIMPLE, SVMSIMPLE):
        description, epilog = _words(program, f"privatelr {program.name}")
        parser = commands.add_parser(
            program.name,
            help=f"{program.model} of a file in the format of the published program",
            description=description,
            epilog=epilog,
        )
        _add_arguments(parser)
        parser.set_defaults(run=lambda chosen, program=program: _run(program, chosen))


def _words(program: CProgram, command: str) -> tuple[str, str]:
    """Description and epilogue of the help."""
    return (
        _DESCRIPTION.format(model=program.model, numbers=" ".join(program.numbers)),
        _EPILOG.format(command=command),
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file, or - for standard input")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--released-only",
        action="store_true",
        help="print the two private lines only, and not the plain fit, which is not private",
    )
    which.add_argument(
        "--line",
        choices=(OUTPUT.title, OBJECTIVE.title),
        help="print this private line only, at the price of eps",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse rows longer than 1 + 1e-6 instead of shortening them",
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        metavar="N",
        help="repeat the noise of this whole number; for tests: the output is then not private",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the lines and the public facts as JSON"
    )


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 40):
        raise ValueError
    return int(text)


_seed.__name__ = "seed"


def _run(program: CProgram, chosen: argparse.Namespace) -> int:
    lines = [line for line in ALL if line.title == chosen.line] if chosen.line else [*ALL]
    if chosen.released_only:
        lines.remove(NON_PRIVATE)
    longest = STRICT_LENGTH if chosen.strict else math.inf
    with _opened(chosen.file) as stream:
        result = run_program(program, stream, _randomness(chosen), lines, longest=longest)
    if chosen.json:
        print(json.dumps(_record(program, result, chosen.seed), indent=2, allow_nan=False))
    else:
        print(*result.lines, sep="\n")
    return DONE


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """A file or standard input; what is wrong with its content begins with its name."""
    name = "standard input" if path == "-" else path if path.isprintable() else repr(path)
    with _standard_input() if path == "-" else open(path, "rb") as stream:
        try:
            yield stream
        except MatrixFileError as error:
            raise MatrixFileError(f"{name}: {error}") from None
        except OSError as error:
            raise MatrixFileError(f"{name}: it cannot be read ({reason_of(error)}).") from None


def _standard_input() -> AbstractContextManager[BinaryIO]:
    if sys.stdin is None:
        raise MatrixFileError("standard input: it is closed.")
    return nullcontext(sys.stdin.buffer)


def _randomness(chosen: argparse.Namespace) -> Randomness:
    if chosen.seed is None:
        return SystemRandomness()
    warnings.warn(
        f"--seed {chosen.seed}: the noise can be replayed, so this output is not private; leave "
        "--seed out for a release.",
        PrivacyWarning,
        stacklevel=2,
    )
    return SeededRandomness(chosen.seed)


def _record(program: CProgram, result: Result, seed: int | None) -> dict[str, Any]:
    """The content of the lines and the public facts; numbers as they are, NaN as null."""
    header = result.header
    facts = {
        "n": header.n,
        "d": header.d,
        "lambda": header.lambda_,
        "eps": header.epsilon,
        "eps_prime": result.epsilon_prime,
    }
    if header.h is not None:
        facts["h"] = header.h
    private = [line.wanted.private and seed is None for line in result.lines]
    return {
        "program": program.name,
        **facts,
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
