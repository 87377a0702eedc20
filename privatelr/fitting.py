"""The steps from a call to a fit: plan, calibrate, pay, draw noise, read the rows, release.

`dplr`, `dpsvm` and the like read their own arguments into a `Method`. The rest is done here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from privatelr.design import project, projection_width, scale_by_data, warn_of_doubts
from privatelr.errors import ArgumentError, PrivacyWarning, require_choice, require_number, show
from privatelr.mechanisms import require_below_one_record, warn_of_large_delta, warn_of_one_record
from privatelr.mechanisms.selection_release import read_account, read_seed
from privatelr.numerics import Loss, label
from privatelr.privacy import Event, Guarantee, unless_seeded, void
from privatelr.privacy.accounting import Account, Entry
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness, normals
from privatelr.results import diagnose, read_threshold
from privatelr.sources import Schema, Tally

if TYPE_CHECKING:
    from privatelr.model_data import FrameData


Fitted = TypeVar("Fitted")


@dataclass(frozen=True, slots=True)
class Method(Generic[Fitted]):
    """The mechanism that a function such as `dplr` uses, set up before the data is seen.

    Attributes
    ----------
    fit : type
        Type of the result.
    loss : Loss
    target : Guarantee
    facts : callable
        Takes n and the plan of the rows; returns public facts.
    calibrate : callable
        Takes the public facts; returns all numbers of the mechanism. It takes no data.
    draw : callable
        Takes a calibration and a source of randomness; returns the noise of a release.
    release : callable
        Takes rows, a calibration and its noise; returns a release.
    by_entries : bool
        Whether the entries of rows are bounded instead of their length.
    """

    fit: Callable[..., Fitted]
    loss: Loss
    target: Guarantee
    facts: Callable[[int, Any], Any]
    calibrate: Callable[[Any], Any]
    draw: Callable[[Any, Randomness], Any]
    release: Callable[[Any, Any, Any], Any]
    by_entries: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """Choices about the design and the computation, after they were checked."""

    randomness: Randomness
    ledger: Account | None
    verbose: int
    threshold: Any
    do_scale: bool = False
    rp_dim: int = 0


def read_options(
    na_action: Any,
    seed: Any,
    ledger: Any,
    verbose: Any,
    threshold: Any,
    do_scale: Any = False,
    rp_dim: Any = 0,
) -> Options:
    """Check the choices of a call; raises `ArgumentError`."""
    why = "; records may not be dropped, because n is public"
    require_choice(ArgumentError, "na_action", na_action, ("zero",), why)
    if not isinstance(do_scale, bool):
        raise ArgumentError(f"do_scale={show(do_scale)}: do_scale takes True or False.")
    projection_width(rp_dim, 1)
    shown = int(verbose) if isinstance(verbose, bool) else verbose
    verbosity = require_number(ArgumentError, "verbose", shown, "0 or 1", at_least=0)
    account, replayed = read_account(ledger), read_seed(seed, "noise", "fit", stacklevel=5)
    randomness = SystemRandomness() if replayed is None else SeededRandomness(replayed)
    return Options(randomness, account, int(verbosity), threshold, do_scale, rp_dim)


def fit(method: Method[Fitted], data: FrameData, schema: Schema, options: Options) -> Fitted:
    """Fit a method to data: first all steps on public facts, then the payment, then the data.

    Notes
    -----
    **Privacy.** *Covered*: the release, by its guarantee. *Neighbours*: those of the target.
    *Assumed public*: n, names, types, declarations and all arguments. *Not covered*:
    diagnostics, a learned threshold, time and memory.
    """
    cut = read_threshold(options.threshold, method.loss)
    data.require_plain(do_scale=options.do_scale, rp_dim=options.rp_dim)
    spec = data.plan_entries(schema) if method.by_entries else data.plan(schema)
    scored, n = data.require_scores(cut), len(data)  # Dask counts its records from here on
    if method.by_entries:
        require_below_one_record(method.target, n)
        warn_of_large_delta(method.target, n, stacklevel=4)
    guarantee = unless_seeded(method.target, not options.randomness.is_secret)
    if options.do_scale and method.target.is_private:
        guarantee = void("scaled by the data")
    if not guarantee.is_private:
        charge(options.ledger, guarantee, (), spec.formula.text)  # refused before data is read
    spec = _projected(_scaled(spec, data, options), options, n)
    if not method.by_entries:
        warn_of_one_record(guarantee, n, stacklevel=4)
    calibration = method.calibrate(method.facts(n, spec))
    warn_of_doubts(spec, data.batch, schema, stacklevel=4)
    if options.verbose:
        print(calibration)
    named = label(spec.formula.text, method.loss)
    entry = charge(options.ledger, guarantee, calibration.events, named)
    draws = method.draw(calibration, options.randomness)
    with np.errstate(all="ignore"):  # an underflow is a fact about the data
        rows: Any
        tally: Tally | None
        if method.by_entries:
            rows, tally = data.entries(spec)
        else:
            rows, tally = data.rows(spec, bar=options.verbose > 0)
        release = method.release(rows, calibration, draws)
        diagnostics = diagnose(rows, release.coef, method.loss, spec, tally) if scored else None
    return method.fit(spec, replace(release, guarantee=guarantee, entry=entry), cut, diagnostics)


def charge(
    ledger: Account | None, guarantee: Guarantee, events: tuple[Event, ...], label: str
) -> Entry | None:
    """Charge a ledger, if there is one; it refuses what it cannot cover."""
    return None if ledger is None else ledger.charge(guarantee, events, label)


def _scaled(spec: Any, data: FrameData, options: Options) -> Any:
    if not options.do_scale:
        return spec
    warnings.warn(
        "do_scale=True scales by means and deviations of the data, so the guarantee is void; "
        "declare bounds= instead.",
        PrivacyWarning,
        stacklevel=5,
    )
    return scale_by_data(spec, data.batch)[0]


def _projected(spec: Any, options: Options, n: int) -> Any:
    width = projection_width(options.rp_dim, n)
    if width > spec.p:
        warnings.warn(
            f"rp_dim={options.rp_dim}: {width} directions are more than the {spec.p} covariates, "
            "so nothing is projected.",
            PrivacyWarning,
            stacklevel=5,
        )
        return spec
    if width == 0:
        return spec
    return project(spec, normals(options.randomness, spec.p * width).reshape(spec.p, width))
