"""The commands ``lrsimple`` and ``svmsimple``, which run a published program on a file."""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, BinaryIO

from privatelr.cli.ledger_commands import ledger_of
from privatelr.cli.option_readers import Parser
from privatelr.cli.options import add_command, add_options, around_options
from privatelr.cli.outcomes import DONE, InputError, be_quiet, reason_of, run_safely
from privatelr.errors import PrivacyWarning
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness
from privatelr.selection.c_programs import (
    ALL,
    LRSIMPLE,
    NON_PRIVATE,
    STRICT_LENGTH,
    SVMSIMPLE,
    CProgram,
    record_of_result,
    run_program,
)
from privatelr.selection.matrix_text import MatrixFileError

_TEXT = """\
Private {model} of a file in the published format:
numbers separated by any white space, first {numbers}, then n rows of
d features, then n labels, each -1 or 1.

Prints three lines: the plain fit, output perturbation, objective perturbation.
Each is d coefficients and a return code, 0 when converged (a plain fit that
did not converge is d times nan, and 1; a private line always is 0). There is no
intercept, and rows longer than 1 are shortened to 1.


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


def _text(program: CProgram, command: str) -> str:
    return _TEXT.format(model=program.model, numbers=" ".join(program.numbers), command=command)


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the subcommands ``lrsimple`` and ``svmsimple``."""
    for program in (LRSIMPLE, SVMSIMPLE):
        name, line = (
            program.name,
            f"{program.model} of a file in the format of the published program",
        )
        run, text = partial(_run, program), _text(program, f"privatelr {name}")
        add_command(commands, name, run, line, text)


def lrsimple(arguments: Sequence[str] | None = None) -> int:
    """The command ``lrsimple``; returns the exit status."""
    return _main(LRSIMPLE, arguments)


def svmsimple(arguments: Sequence[str] | None = None) -> int:
    """The command ``svmsimple``; returns the exit status."""
    return _main(SVMSIMPLE, arguments)


def _main(program: CProgram, arguments: Sequence[str] | None) -> int:
    parser = Parser(prog=program.name, **around_options(_text(program, program.name)))
    add_options(parser, program.name)

    def parsed_and_run() -> int:
        chosen = parser.parse_args(arguments)
        if chosen.quiet:
            be_quiet()
        return _run(program, chosen)

    return run_safely(program.name, parsed_and_run)


def _run(program: CProgram, chosen: argparse.Namespace) -> int:
    lines = [line for line in ALL if chosen.line in (None, line.title)]
    if chosen.released_only:
        lines.remove(NON_PRIVATE)
    longest = STRICT_LENGTH if chosen.strict else math.inf
    randomness: Randomness = SystemRandomness()
    paid = ledger_of(chosen)
    with _opened(chosen.file) as stream:
        if chosen.seed is not None:
            randomness = SeededRandomness(chosen.seed)
            warnings.warn(
                f"--seed {chosen.seed}: the noise can be replayed, so this output is not private; "
                "leave --seed out for a release.",
                PrivacyWarning,
                stacklevel=2,
            )
        result = run_program(program, stream, randomness, lines, longest=longest, **paid)
    if chosen.json:
        print(json.dumps(record_of_result(program, result, chosen.seed), indent=2, allow_nan=False))
    else:
        print(*result.lines, sep="\n")
    return DONE


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a file or standard input; errors about its content begin with its name."""
    name = "standard input" if path == "-" else path if path.isprintable() else repr(path)
    if path == "-" and sys.stdin is None:
        raise InputError("standard input: it is closed.")
    with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream:
        try:
            yield stream
        except MatrixFileError as error:
            raise InputError(f"{name}: {error}") from None
        except OSError as error:
            raise InputError(f"{name}: it cannot be read ({reason_of(error)}).") from None
