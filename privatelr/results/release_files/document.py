"""A fit as a document: its records become entries, and the entries become plain values."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import math
import platform
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType

import privatelr
from privatelr import privacy
from privatelr.design import DesignSpec, Factor, NormBoundedMatrix, Response, Variable
from privatelr.errors import GuaranteeError, ReleaseFileError
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.score_histogram import HistogramRelease
from privatelr.numerics import Loss
from privatelr.privacy import noise
from privatelr.privacy.accounting import Entry, Receipt
from privatelr.results.fit_record import ModelRecord
from privatelr.results.release_files import calibration_entries as made
from privatelr.results.release_files import design_entries as shapes
from privatelr.results.release_files import document_entries as entries
from privatelr.results.release_files.json_values import canonical
from privatelr.selection.choices import Selections
from privatelr.selection.multiplicative_weights import ProgramCalibration
from privatelr.selection.simplex import Stability
from privatelr.types import Block, FloatArray

_LIBRARIES = ("formulaic", "numpy", "pandas", "python-flint", "scipy")
_ENTRIES: dict[type, Any] = {
    noise.SphericalLaplace: made.SphericalEntry,
    noise.BlockLaplace: made.BlockLaplaceEntry,
    noise.GaussianNoise: made.GaussianEntry,
    noise.NoNoise: made.NoNoiseEntry,
    noise.CopiedNoise: made.CopiedEntry,
    Stability: made.StabilityEntry,
    Receipt: entries.ReceiptEntry,
}
"""Records whose attributes have the names of their entries; a new noise law is listed here."""
_PLAIN = (str, bool, int, dict, type(None), UnsetType)
"""Values of these types are written to a file unchanged."""


def release_document(fit: ModelRecord) -> dict[str, Any]:
    """A fit as plain values, with its content hash.

    Raises
    ------
    GuaranteeError
        If the columns were scaled by the data, because their map then contains moments of the
        data.
    ReleaseFileError
        If a coefficient is not a finite number, or a level not a text, a number or a boolean.
    """
    if fit.spec.scaled_by_data:
        raise GuaranteeError(
            "do_scale=True: the columns were scaled by means and deviations of the data, which a "
            "release may not hold; declare bounds= instead, and fit again."
        )
    if not np.isfinite(fit.release.coef).all():
        raise ReleaseFileError("a coefficient is not a finite number")
    document = unhashed_document(fit)
    return {**document, "sha256": content_hash(document)}


def content_hash(document: dict[str, Any]) -> str:
    """SHA-256 of the canonical JSON of all entries but the hash itself."""
    rest = {name: value for name, value in document.items() if name != "sha256"}
    return hashlib.sha256(canonical(rest)).hexdigest()


def unhashed_document(fit: ModelRecord) -> dict[str, Any]:
    """A fit as a document in which the hash is still empty."""
    release, cut, guarantee = fit.release, fit.threshold, fit.guarantee
    choices = inference = None
    if isinstance(release, Selections):
        chosen = np.flatnonzero(release.counts)
        times = release.counts[chosen]
        choices = _entry_of(made.ChoicesEntry, release, options=chosen, times=times)
    elif release.moments is not None:
        moments = release.moments
        # the numbers as they were released, because the noise was added to these
        ends = list(accumulate(range(moments.calibration.problem.d, 1, -1)))
        curvature, scores = (np.split(half, ends) for half in np.split(moments.values, 2))
        typical = moments.calibration.typical
        inference = _entry_of(
            entries.MomentsEntry,
            moments.calibration,
            curvature=curvature,
            scores=scores,
            typical=UNSET if typical is None else typical,
        )
    scale: Any = UNSET
    if not isinstance(release, Selections) and release.scale is not None:
        made_scale = release.scale.calibration
        means, squares = np.split(release.scale.values, [len(made_scale.means)])
        scale = _entry_of(made.ScaleEntry, made_scale, means=means, squares=squares)
    counts: Any = UNSET
    if fit.has_roc:
        counts = counts_entry(release.histogram)
    notice = f"covered by {guarantee}; holds no row of the data, and no moment of it without noise"
    randomness = "operating system"
    if isinstance(guarantee, privacy.NonPrivate):
        notice = f"NOT PRIVATE: nothing in this file is covered by a guarantee ({guarantee.reason})"
        if guarantee == privacy.unless_seeded(release.calibration.target, seeded=True):
            randomness = "seed"
    if isinstance(release.calibration.target, privacy.NonPrivate):
        randomness = "no noise"
    with np.errstate(all="ignore"):
        estimates = in_user_units(fit.spec.user_map(), fit.spec, release.coef).tolist()
    document: dict[str, Any] = plain(
        entries.Document(
            format=entries.FORMAT,
            version=entries.VERSION,
            notice=notice,
            written_by=programs(),
            guarantee=as_entry(guarantee),
            randomness=randomness,  # type: ignore[arg-type]
            calibration=calibration_entry(release.calibration),
            inference=inference,
            scale=scale,
            roc=counts,
            choices=choices,
            ledger=as_entry(release.entry),
            design=plan_entry(fit.spec),
            coefficients=entries.CoefficientsEntry(
                names=_names(fit.spec),
                user_units=[finite(value) for value in estimates],
                design_units=release.coef.tolist(),
            ),
            threshold=(
                entries.ThresholdEntry(rule=cut, value=None)
                if isinstance(cut, str)
                else entries.ThresholdEntry(rule="fixed", value=cut)
            ),
            sha256="",
        )
    )
    return document


def in_user_units(units: Any, spec: Any, coef: FloatArray) -> FloatArray:
    """Coefficients in the units of the columns, those of each class one after the other."""
    parts = np.split(coef, len(coef) // spec.d)
    return np.concatenate([np.asarray(units @ part) for part in parts])


def _names(spec: Any) -> list[str]:
    names = list(spec.columns.names)
    if spec.response.kind != "classes":
        return names
    return [f"{one}: {name}" for one in spec.response.classes for name in names]


def plain(entry: Any) -> Any:
    """Entries as plain values for JSON; NumPy's numbers become Python's."""
    return msgspec.to_builtins(entry, enc_hook=lambda value: value.item())


@functools.cache
def programs() -> dict[str, str]:
    """The programs that write a file, with their versions."""
    return {
        "privatelr": privatelr.__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def finite(value: float) -> float | None:
    """The value, or None for one that JSON does not have."""
    return value if math.isfinite(value) else None


# -- parts -----------------------------------------------------------------------------------


def _entry_of(kind: Any, *sources: Any, **given: Any) -> Any:
    """An entry of class `kind`: given fields, and all others from the first source with them."""
    for name in kind.__struct_fields__:
        if name not in given:
            given[name] = next(getattr(source, name) for source in sources if hasattr(source, name))
    return kind(**{name: as_entry(value) for name, value in given.items()})


def as_entry(value: Any) -> Any:
    """The entry of a public value."""
    match value:
        case np.generic():
            return as_entry(value.item())
        case np.ndarray():
            return value.tolist()
        case tuple() | list():
            return [as_entry(item) for item in value]
        case Block():  # the usual norm, l1, is not written
            norm = UNSET if value.norm == "l1" else value.norm
            return _entry_of(made.BlockEntry, value, norm=norm)
        case Entry():
            told = {"receipts": as_entry(value.receipts) or UNSET, "person": value.person or UNSET}
            return _entry_of(entries.ChargeEntry, value, **told)
        case Response():
            return _entry_of(shapes.ResponseEntry, value, expression=value.expression.label)
        case Variable():
            bounded = value.kind == "numeric" and value.is_bounded
            bounds = value.bounds if bounded else None
            return _entry_of(shapes.VariableEntry, value, bounds=bounds)
        case Factor():
            bounded = not value.is_categorical and all(map(math.isfinite, value.interval))
            ends, label = value.interval if bounded else None, value.expression.label
            return _entry_of(shapes.FactorEntry, value, expression=label, range=ends)
    if isinstance(value, privacy.Event | privacy.NonPrivate):
        return privacy.event_to_json(value)  # type: ignore[arg-type]
    if type(value) in _ENTRIES:
        return _entry_of(_ENTRIES[type(value)], value)
    finite = type(value) is float and math.isfinite(value)
    if finite or type(value) in _PLAIN or isinstance(value, Struct):
        return value
    raise ReleaseFileError(
        f"a level of type {type(value).__name__} has no place in a release file; declare "
        "levels= of texts, numbers or booleans"
    )


def counts_entry(scored: HistogramRelease) -> Any:
    """Noisy counts of scores as an entry."""
    whole = [int(count) for count in scored.counts]
    return _entry_of(made.ScoreCountsEntry, scored.calibration, scored.scale, counts=whole)


def loss_entry(loss: Loss) -> Any:
    """The name of a loss, with its parameters if it has any."""
    return {"name": loss.name, **loss.parameters} if loss.parameters else loss.name


def calibration_entry(calibration: Any) -> Any:
    """A calibration as an entry, which is public; a new mechanism is listed here."""
    if isinstance(calibration, ProgramCalibration):
        eta = None if calibration.choice is None else calibration.eta
        return _entry_of(made.WeightsEntry, calibration, calibration.problem, eta=eta)
    given: dict[str, Any] = {"loss": loss_entry(calibration.problem.loss)}
    kind: Any = made.SimplexEntry
    if isinstance(calibration, Calibration):
        kind, problem = made.PerturbationEntry, calibration.problem
        given["classes"] = problem.classes if problem.is_multinomial else UNSET
        rules = [made.RuleEntry(rule=r, lambda_=x) for r, x in calibration.lambda_rules]
        given["lambda_rules"] = rules
        given["alternatives"] = [
            made.AlternativeEntry(noise=title, ratio=finite(ratio))
            for title, ratio in calibration.alternatives
        ]
    return _entry_of(kind, calibration, calibration.problem, **given)


def plan_entry(spec: Any) -> Any:
    """The plan of a design as an entry, which is public."""
    if not isinstance(spec, DesignSpec):
        (variable,) = spec.variables.values()
        row_norm = spec.bound if isinstance(spec, NormBoundedMatrix) else None
        given = {"matrix": spec.p, "row_norm": row_norm, "variable": variable}
        person = spec.formula.person
        whose = None if person is None else (person.column, person.most)
        said = UNSET if whose is None else shapes.PersonEntry(*whose)
        return _entry_of(shapes.MatrixEntry, spec, **given, person=said)
    columns = spec.columns
    numbers = (columns.parent.tolist(), columns.centre.tolist(), columns.scale.tolist())
    return _entry_of(
        shapes.FormulaEntry,
        spec,
        formula=spec.formula.text,
        variables=list(spec.variables.values()),
        terms=[
            shapes.TermEntry(label=t.label, columns=list(t.columns), length=finite(t.radius))
            for t in columns.terms
        ],
        columns=[
            shapes.ColumnEntry(name=name, parent=None if parent < 0 else parent, centre=c, scale=s)
            for name, parent, c, s in zip(columns.names, *numbers, strict=True)
        ],
        unbounded_norm=UNSET if spec.unbounded_norm is None else spec.unbounded_norm,
        standard=(
            UNSET
            if spec.standard is None
            else shapes.StandardEntry(
                length=finite(spec.standard.length),
                unit=spec.standard.unit,
                weighted=spec.standard.weighted or UNSET,
            )
        ),
        paid=[_entry_of(shapes.PaymentEntry, payment) for payment in spec.paid] or UNSET,
        width=UNSET if spec.width is None else spec.width,
        prior=(
            UNSET
            if spec.prior is None
            else shapes.PriorEntry(
                means=dict(spec.prior.means),
                source=spec.prior.source,
                sds=dict(spec.prior.sds) or UNSET,
                uncovered=spec.prior.uncovered or UNSET,
            )
        ),
    )
