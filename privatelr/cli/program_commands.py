"""The commands ``lrsimple`` and ``svmsimple``, which run a published program on a file."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import BinaryIO, Literal

from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.options import LedgerOptions, Output, Whole, group_of_options
from privatelr.cli.outcomes import DONE, STDIN, InputError, reason_of
from privatelr.errors import ArgumentError, PrivacyWarning
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness
from privatelr.selection.c_programs import (
    ALL,
    LRSIMPLE,
    NON_PRIVATE,
    SVMSIMPLE,
    CProgram,
    record_of_result,
    run_program,
)
from privatelr.selection.matrix_text import MatrixFileError


@group_of_options("Output")
class Lines(Output):
    """The lines of a published program."""

    released_only: bool = False
    """Print the two private lines only, and not the plain fit, which is not private."""
    line: Literal["output", "objective"] | None = None
    """Print this private line only, at the price of eps."""
    seed: Whole = None
    """Repeat the noise of this number, for tests. It voids the guarantee."""


_PROGRAM = """\
Run the published program for {model}.

The file has numbers separated by any white space: first {numbers}, then n rows of d
features, then n labels, each -1 or 1; - reads it from standard input.

Three lines are printed: the plain fit, output perturbation, objective perturbation. Each is d
coefficients and a return code, 0 if the fit converged. A plain fit that did not is d times nan,
and 1; a private line always is 0. There is no intercept, and rows longer than 1 are shortened to
1. Time grows with n d squared, and with d cubed: minutes where d is in the thousands.

The first line is not private; --released-only leaves it out. Each of the other two alone is
eps-differentially private when one row and its label are replaced; to publish both costs 2 eps,
and so does each further run. The header is taken to be public. An error about the rest of the
file depends on the data, and nothing covers it: do not publish it.

For example:
  privatelr {name} --released-only data.txt

Parameters
----------
file
    The file, or - for standard input.
"""


def lrsimple(
    file: str, /, *, lines: Lines = Lines(), charge: LedgerOptions = LedgerOptions()
) -> int:
    """Run the published program for logistic regression; its help is `_PROGRAM`."""
    return _run(LRSIMPLE, file, lines, charge)


def svmsimple(
    file: str, /, *, lines: Lines = Lines(), charge: LedgerOptions = LedgerOptions()
) -> int:
    """Run the published program for the linear SVM; its help is `_PROGRAM`."""
    return _run(SVMSIMPLE, file, lines, charge)


for program, command in ((LRSIMPLE, lrsimple), (SVMSIMPLE, svmsimple)):
    command.__doc__ = _PROGRAM.format(
        model=program.model, numbers=" ".join(program.numbers), name=program.name
    )


def _run(program: CProgram, file: str, lines: Lines, charge: LedgerOptions) -> int:
    if lines.line is not None and lines.released_only:
        raise ArgumentError("--line and --released-only exclude each other.")
    wanted = [line for line in ALL if lines.line in (None, line.title)]
    if lines.released_only:
        wanted.remove(NON_PRIVATE)
    randomness: Randomness = SystemRandomness()
    paid = ledger_of(charge)
    with _opened(file) as stream:
        if lines.seed is not None:
            randomness = SeededRandomness(lines.seed)
            warnings.warn(
                f"--seed {lines.seed}: the noise can be replayed, so this output is not private; "
                "leave --seed out for a release.",
                PrivacyWarning,
                stacklevel=2,
            )
        result = run_program(program, stream, randomness, wanted, **paid)
    if lines.json:
        print(json.dumps(record_of_result(program, result, lines.seed), indent=2, allow_nan=False))
    else:
        print(*result.lines, sep="\n")
    return DONE


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a file or standard input; errors about its content begin with its name."""
    name = "standard input" if path == STDIN else path if path.isprintable() else repr(path)
    if path == STDIN and sys.stdin is None:
        raise InputError("standard input: it is closed.")
    with nullcontext(sys.stdin.buffer) if path == STDIN else open(path, "rb") as stream:
        try:
            yield stream
        except MatrixFileError as error:
            raise InputError(f"{name}: {error}") from None
        except OSError as error:
            raise InputError(f"{name}: it cannot be read ({reason_of(error)}).") from None
