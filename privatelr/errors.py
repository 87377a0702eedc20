"""All errors and warnings of the package, and the checks that raise them.

An error is one sentence: the argument, what it got, what it takes. It may depend on public
facts only (names, types, declared bounds and levels, the number of rows), never on a value
of the data, because an exception is an output that no privacy budget covers.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from numbers import Real
from typing import Any


class PrivateLRError(Exception):
    """Base class of every error that privatelr raises on purpose.

    Examples
    --------
    >>> from privatelr import PrivateLRError, PureDP
    >>> try:
    ...     PureDP(-1.0)
    ... except PrivateLRError as error:
    ...     print(error)
    epsilon=-1.0: epsilon takes a finite number above 0.
    """


class ArgumentError(PrivateLRError, ValueError):
    """An argument is wrong that does not concern the formula, the data or the guarantee.

    Examples
    --------
    >>> from privatelr import ArgumentError, load_dataset
    >>> try:
    ...     load_dataset("votes")
    ... except ArgumentError as error:
    ...     print(error)
    name='votes': name takes one of 'anes96', 'breast_cancer', 'iris'.
    """


class CallError(ArgumentError, TypeError):
    """A call does not fit the signature of a function; Python itself raises a TypeError."""


class FormulaError(PrivateLRError, ValueError):
    """The formula cannot be read, or names something that does not exist.

    Examples
    --------
    >>> from privatelr import FormulaError, dplr, load_dataset
    >>> try:
    ...     dplr("Species ~ Sepal.Width +", load_dataset("iris"))
    ... except FormulaError as error:
    ...     print(error)
    formula 'Species ~ Sepal.Width + ': the right-hand side takes terms joined by + - : * / and ^.
    """


class SchemaError(PrivateLRError, ValueError):
    """The public description of the data is missing, contradictory, or read off the data.

    Examples
    --------
    >>> from privatelr import SchemaError, dplr, load_dataset
    >>> try:
    ...     dplr("vote ~ age", load_dataset("anes96"), bounds={"age": (99, 18)})
    ... except SchemaError as error:
    ...     print(error)
    bounds['age']=(99, 18): a bound takes two finite numbers (lo, hi) with lo < hi.
    """


class GuaranteeError(PrivateLRError, ValueError):
    """The privacy that was asked for is not defined, not proven, or not available."""


class LedgerError(GuaranteeError):
    """A ledger on disk cannot be opened, believed or written to; nothing was charged or read.

    Examples
    --------
    >>> from privatelr import Ledger, LedgerError
    >>> try:
    ...     Ledger.open("no.ledger")
    ... except LedgerError as error:
    ...     print(str(error).rpartition(": ")[2])
    there is no such ledger; Ledger.create or `privatelr ledger create` makes one.
    """


class WrongLedgerError(LedgerError):
    """What was named as a ledger is not one, is damaged or cannot be read."""


class NoRelease(GuaranteeError):  # noqa: N818
    """Nothing can be released under the guarantee at this lambda.

    Attributes
    ----------
    lambda_min : float
        The smallest lambda at which a release is possible; a function of public facts.

    Examples
    --------
    >>> from privatelr import NoRelease, dpsimplex, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> try:
    ...     dpsimplex("vote ~ age + selfLR", votes, eps=1e-3, lambda_=1e-9, **public)
    ... except NoRelease:
    ...     print("a larger lambda_ or eps is needed")
    a larger lambda_ or eps is needed
    """

    def __init__(self, message: str, lambda_min: float) -> None:
        super().__init__(message)
        self.lambda_min = lambda_min

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.lambda_min)


class ReleaseFileError(PrivateLRError, ValueError):
    """A file is not a release, was changed, or is newer than this version; nothing was loaded.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from privatelr import ReleaseFileError, load
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "fit.json")
    ...     _ = path.write_text("{}")
    ...     try:
    ...         load(path)
    ...     except ReleaseFileError as error:
    ...         print(str(error).rpartition(": ")[2])
    the file is JSON, and not a release of privatelr.
    """


class NotConvergedError(PrivateLRError, RuntimeError):
    """The minimiser did not reach its certificate; nothing was released.

    Examples
    --------
    >>> from privatelr import Newton, NotConvergedError, dplr, load_dataset, load_schema
    >>> votes, public = load_dataset("anes96"), load_schema("anes96")
    >>> try:
    ...     dplr("vote ~ age", votes, eps=0, solver=Newton(max_iterations=1), **public)
    ... except NotConvergedError:
    ...     print("nothing was released")
    nothing was released
    """


class MissingDependencyError(PrivateLRError, ImportError):
    """An optional part of the package needs a library that is not installed.

    Examples
    --------
    >>> from unittest import mock
    >>> from privatelr import MissingDependencyError, stream
    >>> with mock.patch.dict("sys.modules", pyarrow=None):  # as if it were not there
    ...     try:
    ...         stream("visits.parquet")
    ...     except MissingDependencyError:
    ...         print("pip install 'privatelr[parquet]'")
    pip install 'privatelr[parquet]'
    """


class DatasetError(PrivateLRError, OSError):
    """A published table cannot be obtained, or differs from the published one."""


class PrivacyWarning(UserWarning):
    """A choice weakens the guarantee, or changes what the guarantee covers."""


class SchemaWarning(PrivacyWarning):
    """A declaration about the data is probably a mistake; the guarantee holds.

    The warning depends on public facts alone: names, types, declared bounds and levels, the
    formula, the number of records, and other arguments.

    Examples
    --------
    >>> import warnings
    >>> from privatelr import SchemaWarning, dplr, load_dataset
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always", SchemaWarning)
    ...     _ = dplr("vote == 'Dole' ~ age", load_dataset("anes96"), eps=1.0)
    >>> issubclass(told[0].category, SchemaWarning)
    True
    """


class ReaderError(SchemaError):
    """An engine, a reader or code of the user raised an error while private data were read."""


class redact_errors:  # noqa: N801
    """Replace unexpected errors within the block by a `ReaderError` that quotes no data.

    Nothing leads from there to the error that it replaces: neither its context, which debuggers
    read, nor a local variable of its traceback.

    Attributes
    ----------
    what : str
        What could not be done, for the message. The class of the error is not told: it may be
        chosen by a value.
    ours : tuple of classes
        Errors that the block raises on purpose; fewer where code of others runs. They pass, and so
        does a key that interrupts.
    """

    # written out, because importing dataclasses would slow `import privatelr` down
    def __init__(
        self, what: str, *, ours: tuple[type[PrivateLRError], ...] = (PrivateLRError,)
    ) -> None:
        self.what, self.ours = what, ours

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            return
        if issubclass(kind, self.ours):
            error.__context__ = error.__cause__ = None
            return
        if kind in (KeyboardInterrupt, GeneratorExit) and not error.args:
            return
        del kind, error, trace
        redacted = ReaderError(f"data: {self.what}.")
        try:
            raise redacted from None
        finally:
            redacted.__context__ = None


def show(value: Any) -> str:
    """Return how an error may quote a value: plain constants literally, others by their type.

    A column that was passed by mistake is private and must not be printed.
    """
    plain = bool | int | float | str | None
    if isinstance(value, plain):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    is_short = isinstance(value, tuple | list) and len(value) <= 8
    if is_short and all(isinstance(one, plain) for one in value):
        opening, closing = "()" if isinstance(value, tuple) else "[]"
        return f"{opening}{', '.join(map(show, value))}{closing}"
    return f"<{type(value).__name__}>"


def listed(names: Collection[Any], most: int = 40) -> str:
    """Return names as an error lists them: the first ones, and how many more there are."""
    shown = ", ".join(repr(name) for name in islice(names, most))
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, of which there may be one: 1 entry, 2 entries."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else many}"


def nearest(name: Any, known: Collection[str]) -> str | None:
    """Return the known name that is closest to a given one, ignoring case, or None.

    The names are public: columns, declared levels, terms, arguments.
    """
    if not isinstance(name, str):
        return None
    spelled = {str(one).casefold(): str(one) for one in known}
    alike = 0.7 if len(name) > 3 else 0.66  # such as age and aeg, or b and bb
    close = get_close_matches(name.casefold(), spelled, n=1, cutoff=alike)
    return spelled[close[0]] if close else None


def or_meant(name: Any, known: Collection[str]) -> str:
    """Return the end of a sentence about an unknown name: the name that is meant, if any."""
    close = nearest(name, known)
    return "." if close is None else f"; did you mean {close!r}?"


def require_number(
    error: type[PrivateLRError],
    name: str,
    value: Any,
    takes: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float = math.inf,
) -> float:
    """Return `value` as a finite float within the stated range, or raise `error`.

    Parameters
    ----------
    error
        The class to raise.
    name
        Name of the argument, as the user writes it.
    takes
        What the argument takes, in words; it ends the sentence.
    above, at_least, at_most
        Open lower, closed lower and closed upper limit.
    """
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    inside = (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and number <= at_most
    )
    if not inside:
        raise error(f"{name}={show(value)}: {name} takes {takes}.")
    return number


def require_whole(
    error: type[PrivateLRError],
    name: str,
    value: Any,
    takes: str,
    *,
    at_least: float,
    at_most: float = math.inf,
) -> int:
    """Return `value` as a whole number within closed limits, or raise `error`."""
    number = require_number(error, name, value, takes, at_least=at_least, at_most=at_most)
    if not number.is_integer():
        raise error(f"{name}={show(value)}: {name} takes {takes}.")
    return int(number)


def require_flag(name: str, value: Any, takes: str = "True or False") -> bool:
    """Return a truth value, also one of NumPy; raises `ArgumentError` for anything else."""
    # by name, since NumPy is loaded later than errors are
    numpy_flag = type(value).__module__ == "numpy" and type(value).__name__ in {"bool", "bool_"}
    if not (isinstance(value, bool) or numpy_flag):
        raise ArgumentError(f"{name}={show(value)}: {name} takes {takes}.")
    return bool(value)


def require_choice(
    error: type[PrivateLRError],
    name: str,
    value: Any,
    choices: Collection[str],
    why: str = "",
    others: Collection[str] = (),
) -> str:
    """Return `value` if it is one of `choices`, or raise `error` naming them all.

    `others` are further names for some of them, which the error may suggest too.
    """
    if not isinstance(value, str) or value not in choices:
        takes = f"{', '.join(map(repr, choices))}{why}{or_meant(value, (*choices, *others))}"
        raise error(f"{name}={show(value)}: {name} takes {takes}")
    return value
