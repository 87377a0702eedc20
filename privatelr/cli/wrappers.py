"""The commands ``plan``, ``ledger``, ``lrsimple`` and ``svmsimple``: their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from privatelr.cli import c_programs, ledger_commands, plan_command
from privatelr.cli.options import (
    DeclaredRows,
    GuessOptions,
    Hash,
    LedgerOptions,
    Model,
    Output,
    PlanOptions,
    Promise,
    Records,
    Whole,
    Written,
    group_of_options,
    together,
)
from privatelr.errors import ArgumentError


def plan(
    formula: str | None = None,
    *,
    n: float | None = None,
    records: Records = Records(),
    declared: DeclaredRows = DeclaredRows(),
    promise: Promise = Promise(),
    model: Model = Model(),
    guesses: GuessOptions = GuessOptions(),
    question: PlanOptions = PlanOptions(),
    output: Output = Output(),
) -> int:
    r"""Plan a private study before any data is touched.

    The plan has the noise, the standard errors, and the length of 95% intervals that "privatelr
    fit ... --spend inference" will give, next to other promises, mechanisms and penalties.

    No data is read. Every covariate of the formula takes --bounds or --levels; the response need
    not be declared, but for --method multinomial. If FORMULA is a whole number, it is the number
    of columns of a design that nothing is known of, with its intercept.

    What is not public has to be guessed: --balance, --spread, --c-index and --correlation, or a
    public --pilot, a table of records like those of the study. Never give the data of the study as
    a pilot: a plan protects nothing.

    For example:
      privatelr plan "chd ~ age + famhist" --n 462 --eps 1 --bounds age=15:65 \
          --levels famhist=Absent,Present --width 0.1 --term age
      privatelr plan 5 --n 10000 --eps 0.5 --plot widths.png
      privatelr plan --schema study.toml --n 900
      privatelr plan "Species ~ ." --n 150 --eps 4 --method multinomial --schema iris.toml

    Parameters
    ----------
    formula
        R formula, such as "y ~ age + smoker", or a number.
    n
        Number of records, or of persons.
    """
    for name, value in (("FORMULA", formula), ("--n", n)):
        if value is None:
            key = name.lower().removeprefix("--")
            raise ArgumentError(f"{name} is needed, or the key {key} in the file of --schema.")
    groups = (records, declared, promise, model, guesses, question, output)
    return plan_command.plan_study(together(*groups, formula=formula, n=n))


def create(
    file: str,
    /,
    *,
    eps: float | None = None,
    delta: float | None = None,
    dataset: str = "",
    neighbours: Literal["replace", "zero-out", "person"] = "replace",
    account: Literal["sum", "renyi"] | None = None,
    output: Output = Output(),
) -> int:
    """Open an account with a budget, in a new file.

    For example:
      privatelr ledger create clinic.ledger --eps 3 --delta 1e-6 --dataset "clinic 2026"

    Parameters
    ----------
    file
        A file that does not exist yet.
    eps
        The whole budget.
    delta
        The delta at which it is counted; default 0, for pure releases only.
    dataset
        What the ledger is about, as people call it.
    neighbours
        What a release hides; by default one record is replaced.
    account
        How charges add up. The default is renyi if there is a delta, else sum.
    """
    facts = {"file": file, "eps": eps, "delta": delta, "dataset": dataset}
    how = {"neighbours": neighbours, "account": account}
    return ledger_commands.create(together(output, **facts, **how))


def show(
    file: str | None = None, /, *, allowance: str | None = None, output: Output = Output()
) -> int:
    """Show what is spent, by whom, and what is left.

    For example:
      privatelr ledger show clinic.ledger

    Parameters
    ----------
    file
        The ledger; by default the one that PRIVATELR_LEDGER names.
    allowance
        Show only what is charged to this allowance.
    """
    return ledger_commands.show(together(output, file=file, allowance=allowance))


def entries(file: str | None = None, /, *, output: Output = Output()) -> int:
    """List all charges, with the releases that were saved of them.

    For example:
      privatelr ledger entries clinic.ledger

    Parameters
    ----------
    file
        The ledger; by default the one that PRIVATELR_LEDGER names.
    """
    return ledger_commands.entries(together(output, file=file))


def check(file: str, /, *releases: str, head: Hash = None, output: Output = Output()) -> int:
    """Check every row, and whether the ledger knows a noted head and saved models.

    The exit status is 1 if not.

    For example:
      privatelr ledger check clinic.ledger model.json

    Parameters
    ----------
    file
        The ledger.
    releases
        Files that fit has written. Each must be known to the ledger.
    head
        Hash of a head that was noted elsewhere, as show, check and export print it.
    """
    return ledger_commands.check(together(output, file=file, releases=releases, head=head))


def export(file: str | None = None, /, *, written: Written = Written()) -> int:
    """Print all rows with their hashes as JSON, to be kept elsewhere.

    No account is made of it.

    For example:
      privatelr ledger export clinic.ledger --out clinic-2026.json

    Parameters
    ----------
    file
        The ledger; by default the one that PRIVATELR_LEDGER names.
    """
    return ledger_commands.export(together(written, file=file))


def allow(
    file: str,
    name: str,
    /,
    *,
    eps: float | None = None,
    delta: float | None = None,
    output: Output = Output(),
) -> int:
    """Give an allowance, or change it: a limit of its own within the account.

    For example:
      privatelr ledger allow clinic.ledger ann --eps 0.5

    Parameters
    ----------
    file
        The ledger.
    name
        The name of the allowance.
    eps
        The limit of the allowance.
    delta
        The delta of the limit; default 0.
    """
    return ledger_commands.allow(together(output, file=file, name=name, eps=eps, delta=delta))


def budget(
    file: str,
    /,
    *,
    reason: str,
    eps: float | None = None,
    delta: float | None = None,
    output: Output = Output(),
) -> int:
    """Change the budget from here on, with the reason.

    For example:
      privatelr ledger budget clinic.ledger --eps 4 --reason "second wave"

    Parameters
    ----------
    file
        The ledger.
    eps
        The budget from here on.
    delta
        The delta of the budget; by default as it was.
    reason
        Why the budget changes. The reason stays in the ledger.
    """
    return ledger_commands.budget(together(output, file=file, eps=eps, delta=delta, reason=reason))


# -- the published programs ----------------------------------------------------------------------


@group_of_options("Output")
@dataclass(frozen=True, kw_only=True)
class Lines(Output):
    """The lines of a published program."""

    released_only: bool = False
    """Print the two private lines only, and not the plain fit, which is not private."""
    line: Literal["output", "objective"] | None = None
    """Print this private line only, at the price of eps."""
    strict: bool = False
    """Refuse rows longer than 1 + 1e-6 instead of shortening them."""
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
file, or a refusal by --strict, depends on the data, and nothing covers it: do not publish it.

For example:
  privatelr {name} --released-only data.txt

Parameters
----------
file
    The file, or - for standard input.
"""


def _run(program: c_programs.CProgram, lines: Lines, charge: LedgerOptions, file: str) -> int:
    if lines.line is not None and lines.released_only:
        raise ArgumentError("--line and --released-only exclude each other.")
    return c_programs.run(program, together(lines, charge, file=file))


def lrsimple(
    file: str, /, *, lines: Lines = Lines(), charge: LedgerOptions = LedgerOptions()
) -> int:
    """Run the published program for logistic regression; its help is `_PROGRAM`."""
    return _run(c_programs.LRSIMPLE, lines, charge, file)


def svmsimple(
    file: str, /, *, lines: Lines = Lines(), charge: LedgerOptions = LedgerOptions()
) -> int:
    """Run the published program for the linear SVM; its help is `_PROGRAM`."""
    return _run(c_programs.SVMSIMPLE, lines, charge, file)


for program, command in ((c_programs.LRSIMPLE, lrsimple), (c_programs.SVMSIMPLE, svmsimple)):
    command.__doc__ = _PROGRAM.format(
        model=program.model, numbers=" ".join(program.numbers), name=program.name
    )
