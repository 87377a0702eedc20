"""A table with the predictions of a fit beside its own columns, and as the rows of its design."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any, Protocol

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.design import require_readable
from privatelr.errors import ArgumentError, nearest
from privatelr.results.predict import design_rows
from privatelr.sources import as_batch, is_dask, is_stream

_KEPT = (("", ".fitted"), ("_lower", ".lower"), ("_upper", ".upper"))
"""Ends of names of columns that `predict` has with an interval, and their names in broom."""


_ELSEWHERE = {
    **{name: f"fit.tidy().{name}() writes a table." for name in ("to_latex", "to_markdown")},
    **dict.fromkeys(("ci", "intervals"), "did you mean conf_int?"),
    **dict.fromkeys(("coefficients", "estimate", "estimates"), "did you mean coef?"),
    **dict.fromkeys(("se", "std_error", "std_errors"), "did you mean bse?"),
}
"""What stands for names that people type."""


class _Predicts(Protocol):
    def predict(self, data: Any, type: Any = None, **options: Any) -> Any: ...


@suggests_arguments
class Augments:
    """Fits that put their predictions beside the columns of a table."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Raise an `AttributeError` with the nearest name, or with what stands for another one."""
        meant = _ELSEWHERE.get(name)
        if meant is None and not name.startswith("_") and not hasattr(type(self), name):
            close = nearest(name, [each for each in dir(type(self)) if not each.startswith("_")])
            meant = close and f"did you mean {close}?"
        if meant is None:
            return object.__getattribute__(self, name)  # Python's own error, or a property's
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}; {meant}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to {name!r}: a fit does not change")

    def augment(
        self: _Predicts, data: Any, *, interval: float | None = None, threshold: Any = None
    ) -> Any:
        """Return a table with predictions beside its own columns, in broom's layout.

        Parameters
        ----------
        data
            A frame with the columns of the right-hand side, or a Dask frame.
        interval : float, optional
            Level of confidence, such as 0.95, as `predict` takes it where a fit has intervals.
        threshold
            Beyond it the class is positive, as `predict` takes it.

        Returns
        -------
        DataFrame with as many rows
            The columns of `data`, then ``.fitted``, a probability or a margin, and ``.class``. Of
            several classes each has a probability, ``.fitted_<class>``. With an interval there are
            ``.lower``, ``.upper`` and ``.std_error``, the last of the linear predictor. Missing if
            a value is missing or a level is not declared. There are no residuals: the response is
            not read.

        Raises
        ------
        ArgumentError
            If `data` has such a column already, is a stream of record batches, or if the fit has no
            intervals.

        Notes
        -----
        **Privacy.** *Covered*: the new columns are functions of the release, as those of `predict`.
        *Neighbours*: replace one record of the training data. *Assumed public*: nothing new.
        *Not covered*: the table itself; it holds `data`, and is as private.
        """
        _require_memory("augment", data)
        table = data if is_dask(data) else as_batch(data).frame
        made = _columns(self, data, interval, threshold)
        twice = [name for name in made if name in set(map(str, table.columns))]
        if twice:
            raise ArgumentError(f"data has a column {twice[0]!r} already; rename it for augment.")
        if is_dask(data):
            return table.assign(**made)
        return table.assign(**{name: column.set_axis(table.index) for name, column in made.items()})


@suggests_arguments
class ModelMatrix:
    """Fits whose linear predictor is a matrix of rows times their coefficients."""

    __slots__ = ()

    def model_matrix(self: Any, data: Any) -> pd.DataFrame:
        """Return the rows of a table as the fit sees them, in the units of its coefficients.

        ``fit.model_matrix(data) @ fit.coef``, plus an offset if the formula has one, are the links
        that ``fit.predict(data, "link")`` returns.

        Parameters
        ----------
        data
            A frame with the columns of the right-hand side.

        Returns
        -------
        DataFrame of shape (n, d)
            A column for each coefficient. Values beyond their bounds are the bounds, and rows that
            are too long are shortened, as in the fit. NaN where a row cannot be used.

        Raises
        ------
        ArgumentError
            If the fit is of a random projection, or of a matrix without names, or if `data` is a
            stream of record batches.

        Notes
        -----
        **Privacy.** *Covered*: nothing by itself; the rows are as private as `data`.
        *Neighbours*, *assumed public*: as of `predict`. *Not covered*: `data`.
        """
        if not self.spec.has_names or self.spec.projection is not None:
            raise ArgumentError("model_matrix: takes a fit by a formula, without rp_dim.")
        _require_memory("model_matrix", data)
        batch = as_batch(data)
        require_readable(self.spec, batch, self.spec.formula.covariates)
        with np.errstate(all="ignore"):  # a warning about an underflow would reveal data
            rows, usable, _ = design_rows(self, batch)
            found = np.linalg.solve(self.spec.user_rows().T, rows.T).T
        found[~usable] = np.nan
        return pd.DataFrame(found, index=batch.index, columns=list(self.spec.columns.names))


def _require_memory(method: str, data: Any) -> None:
    if is_stream(data):
        raise ArgumentError(
            f"{method} takes a table in memory: read a file by pandas; predict reads streams."
        )


def _columns(
    fit: _Predicts, data: Any, interval: float | None, threshold: Any
) -> dict[str, pd.Series[Any]]:
    """The columns that are added, by their names."""
    given = {} if threshold is None else {"threshold": threshold}
    classes = {".class": fit.predict(data, "class", **given)}
    if interval is None:
        found = fit.predict(data, None if _has_scores(fit) else "margins")
        if found.ndim == 1:
            return {".fitted": found, **classes}
        return {**{f".fitted_{name}": found[name] for name in found.columns}, **classes}
    if not hasattr(fit, "conf_int"):
        raise ArgumentError("interval: this fit has no intervals, as it has no standard errors.")
    found = fit.predict(data, interval=interval)
    score = next(str(name) for name in found.columns)
    made = {name: found[f"{score}{end}"] for end, name in _KEPT}
    return {**made, **classes, ".std_error": found["std_error"]}


def _has_scores(fit: Any) -> bool:
    """Whether scores are what the fit predicts by default: of margins it predicts classes."""
    loss = getattr(fit, "first", fit).loss
    return loss.probability is not None
