"""The steps from a call to a fit: plan, calibrate, pay, draw noise, read the rows, release.

If the scale of the columns is released, it comes first, and the rows are read again under its map.
`dplr`, `dpsvm` and the like read their own arguments into a `Method`. The rest is done here.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from privatelr.design import (
    AnySpec,
    DesignSpec,
    Prior,
    in_standard_units,
    prior_of,
    project,
    projection_width,
    require_usable_response,
    scale_by_data,
    standardise,
    warn_of_doubts,
)
from privatelr.errors import (
    ArgumentError,
    GuaranteeError,
    PrivacyWarning,
    require_choice,
    require_number,
    show,
)
from privatelr.lazy_import import lazy_import
from privatelr.mechanisms import (
    Draws,
    release_scale,
    require_below_one_record,
    scale_map,
    warn_of_large_delta,
    warn_of_noise,
    warn_of_one_record,
)
from privatelr.mechanisms.request import (
    LENGTHS,
    RANGES,
    SCALE,
    read_account,
    read_seed,
    require_no_account,
)
from privatelr.mechanisms.stages.lengths import release_length
from privatelr.mechanisms.stages.ranges import release_ranges
from privatelr.mechanisms.stages.scale import row_map
from privatelr.method import Method
from privatelr.numerics import label
from privatelr.numerics.rows import RowBounds
from privatelr.privacy import (
    Guarantee,
    unless_seeded,
    void,
)
from privatelr.privacy.accounting import Account, charge, charged_if_unread
from privatelr.privacy.noise import Randomness, SeededRandomness, SystemRandomness, drawn_normals
from privatelr.sources import Schema

if TYPE_CHECKING:
    from privatelr import results
    from privatelr.call_data import FrameData
    from privatelr.formula import By
    from privatelr.mechanisms.stages.histogram import ScoreScale
    from privatelr.results import fit_record, strata_of_fits
    from privatelr.results.answers import scored_records
    from privatelr.results.release_files import release_file
else:
    fit_record = lazy_import("privatelr.results.fit_record")
    release_file = lazy_import("privatelr.results.release_files.release_file")
    results = lazy_import("privatelr.results")
    scored_records = lazy_import("privatelr.results.answers.scored_records")
    strata_of_fits = lazy_import("privatelr.results.strata_of_fits")


Fitted = TypeVar("Fitted")
"""The type of the result."""
DoScale = bool | Literal["private"] | None


@dataclass(frozen=True, slots=True)
class Options:
    """Choices about the design and the computation, after they were checked."""

    randomness: Randomness
    ledger: Account | None
    verbose: int
    threshold: Any
    do_scale: DoScale = False
    rp_dim: int = 0
    prior: Callable[[Any, Any], Prior] | None = None


def read_prior(prior: Any, stacklevel: int = 5) -> Callable[[Any, Any], Prior] | None:
    """Read the coefficients to which a penalty draws; returns a function of the plan and the loss.

    Raises
    ------
    ArgumentError
        If it is neither numbers by names, nor a fit, nor the name of a file of one.
    """
    if prior is None:
        return None
    if isinstance(prior, str | os.PathLike):
        try:
            prior = release_file.load(prior)
        except FileNotFoundError:
            raise ArgumentError(f"prior: there is no file {show(os.fspath(prior))}.") from None
    if isinstance(prior, fit_record.FitRecord):
        if not prior.guarantee.is_private:
            warnings.warn(
                "prior: the earlier fit has no guarantee; this one protects none of its records.",
                PrivacyWarning,
                stacklevel=stacklevel,
            )
        source = f"of an earlier fit ({prior.formula}, {prior.guarantee})"
        chained = prior.spec.prior is not None and prior.spec.prior.uncovered
        uncovered = chained or not prior.guarantee.is_private
        found = Prior(prior.coef.to_dict(), source, uncovered=uncovered)
        return partial(fit_record.prior_of_fit, prior, found)
    takes = "numbers by names of coefficients, such as {'age': 0.03} or {'age': (0.03, 0.01)} with "
    takes += "a standard deviation, an earlier fit of two classes, or its file"
    if not isinstance(prior, Mapping) or not prior:
        raise ArgumentError(f"prior={show(prior)}: prior takes {takes}.")
    means, sds = {}, {}
    for name, given in prior.items():
        if isinstance(given, fit_record.FitRecord):
            said = f"prior takes one of its fits, such as that of {name!r}."
            raise ArgumentError(f"prior: it has a fit for each stratum; {said}")
        at, takes = f"prior[{name!r}]", "a finite number, or a mean and a standard deviation"
        mean, *sd = given if isinstance(given, tuple | list) and len(given) == 2 else (given,)
        means[name] = require_number(ArgumentError, at, mean, takes)
        for deviation in sd:
            words = "a mean and a standard deviation above 0"
            sds[name] = require_number(ArgumentError, at, deviation, words, above=0)
    return lambda spec, _: Prior(means, "as given", sds).for_plan(spec, only_shared=False)


def read_do_scale(do_scale: Any) -> DoScale:
    """Check how rows are to be scaled; raises `ArgumentError`."""
    if isinstance(do_scale, np.bool_):
        do_scale = bool(do_scale)
    if do_scale is not None and not isinstance(do_scale, bool):
        takes = (
            " (means and second moments of the columns are released and paid for), None (the same "
            "where it is worth its price), False (neither), or True (scaling by the data, which "
            "voids the guarantee)"
        )
        require_choice(ArgumentError, "do_scale", do_scale, ("private",), takes)
    found: DoScale = do_scale
    return found


def read_options(
    na_action: Any,
    seed: Any,
    ledger: Any,
    verbose: Any,
    threshold: Any,
    do_scale: Any = False,
    rp_dim: Any = 0,
    prior: Any = None,
) -> Options:
    """Check the choices of a call; raises `ArgumentError`."""
    why = "; records may not be dropped, because n is public"
    require_choice(ArgumentError, "na_action", na_action, ("zero",), why)
    scaling = read_do_scale(do_scale)
    projection_width(rp_dim, 1)  # refuses what is no number of directions
    shown = int(verbose) if isinstance(verbose, bool) else verbose
    verbosity = require_number(ArgumentError, "verbose", shown, "0 or 1", at_least=0)
    account, replayed = read_account(ledger), read_seed(seed, "noise", "fit", stacklevel=5)
    randomness = SystemRandomness() if replayed is None else SeededRandomness(replayed)
    asked = read_prior(prior)
    return Options(randomness, account, int(verbosity), threshold, scaling, rp_dim, asked)


def fit(
    kind: Callable[..., Fitted],
    method: Method,
    data: FrameData,
    schema: Schema,
    options: Options,
) -> Fitted:
    """Fit a method to data: first all steps on public facts, then the payment, then the data.

    If the formula has ``by(sex)`` there is a fit for each level, and one payment for all; the
    result is `privatelr.results.strata_of_fits.Strata`.

    Notes
    -----
    **Privacy.** *Covered*: the release, by its guarantee. *Neighbours*: those of the target.
    *Assumed public*: n, names, types, declarations and all arguments. *Not covered*:
    diagnostics, a learned threshold, time and memory.
    """
    if data.has_unnamed_persons:
        require_no_account(options.ledger)
    guarantee = unless_seeded(method.target, not options.randomness.is_secret)
    if options.do_scale is True and method.target.is_private:
        guarantee = void("scaled by the data")
    # choices are charged by their events, which may need no delta although the guarantee has one
    is_read = data.is_in_parts and not method.by_entries
    with charged_if_unread(options.ledger, guarantee, is_read=is_read):
        declared, cut, is_scored = _declared_plan(method, data, schema, options, guarantee)
        spec, calibration = method.planned(declared, len(data))
        if spec is not declared:
            warn_of_noise(calibration.parts[SCALE], stacklevel=4)
        warn_of_doubts(spec, data.batch, schema, stacklevel=4)
        if options.verbose:
            print(calibration)
    strata: By | None = spec.formula.by
    by = strata if strata is not None and strata.level is None else None
    named = label(spec.formula.text, method.loss)
    whose = None if spec.formula.person is None else spec.formula.person.column
    events = () if options.ledger is None else calibration.events
    entry = charge(options.ledger, guarantee, events, named, whose)
    draws = method.draw(calibration, options.randomness)
    fits = dict[Any, Any]()
    with np.errstate(all="ignore"):  # an underflow is a fact about the data
        loose, tally, before, bar = None, None, dict[str, Any](), options.verbose > 0
        centre = factor = np.zeros(0)
        is_read_again = data.is_in_parts and (spec is not declared or by is not None)
        check: Callable[[], Any] | None = None
        if data.is_in_parts:
            data = data.held(declared)
        if spec is not declared:
            loose, tally = data.loose(declared, bar=bar)
            check = loose.watched() if is_read_again else None
            before = release_before(loose, cast("DesignSpec", spec), calibration, draws)
            centre, factor, length = row_map(before)
            spec = standardise(cast("DesignSpec", spec), centre, factor, released=length)
        for level in (None,) if by is None else spec.variables[by.column].levels:
            at = spec if by is None else spec.at_level(level)
            if fits:  # the scale is that of all strata, and was drawn once
                alone = calibration.having({SCALE: None, RANGES: None, LENGTHS: None})
                draws = method.draw(alone, options.randomness)
            rows: Any
            if loose is not None and by is None:
                rows = data.standardised(loose, at, centre, factor, bar=bar)
            else:
                read = data.entries if method.by_entries else partial(data.rows, bar=bar)
                rows, tally = read(at)
            loose = None  # frees the memory
            if is_read_again and check is None:
                check = rows.watched()
            drawn: dict[str, Any] = (
                {} if at.prior is None else prior_of(at, calibration.coefficients.problem)
            )
            if before:
                drawn["before"] = before

            def expected(release: Any, at: Any = at) -> ScoreScale:
                made: Any = kind(at, release, cut, None)
                return scored_records.score_scale(made)

            paid = {"guarantee": guarantee, "entry": entry}
            release = method.release(rows, calibration, draws, **drawn, **paid, expected=expected)
            diagnostics = None
            if is_scored:
                diagnostics = results.diagnose(rows, release.coef, method.loss, at, tally)
            fits[level] = kind(at, release, cut, diagnostics)
        if check is not None:
            check()
    # few calls ask for strata, and all others are better served by the type of a fit
    return cast("Fitted", fits[None] if by is None else strata_of_fits.Strata(by.column, fits))


def release_before(rows: Any, spec: DesignSpec, calibration: Any, draws: Draws) -> dict[str, Any]:
    """Release the scale of the columns and, if it is paid for, the length of rows under its map."""
    scale = release_scale(rows, calibration.parts[SCALE], draws.others[SCALE])
    found: dict[str, Any] = {}
    if RANGES in calibration.parts:
        noise: Any = draws.others[RANGES]
        found[RANGES] = release_ranges(rows, calibration.parts[RANGES], noise, scale)
        scale = replace(scale, ranges=found[RANGES].values)
    found = {SCALE: scale, **found}
    lengths = calibration.parts.get(LENGTHS)
    if lengths is None:
        return found
    centre, factor = scale_map(scale)
    change = partial(in_standard_units, spec, centre=centre, factor=factor)
    bounds = RowBounds(**spec.limits)
    length = release_length(rows, lengths, draws.others[LENGTHS], change, bounds)
    return {**found, LENGTHS: length}


def _declared_plan(
    method: Method, data: FrameData, schema: Schema, options: Options, guarantee: Guarantee
) -> tuple[AnySpec, Any, bool]:
    """Plan the rows by declarations alone.

    Returns the plan, the threshold or the rule by which one is learned, and whether each record is
    scored, for diagnostics.
    """
    cut = results.read_threshold(options.threshold, method.loss)
    data.require_plain(do_scale=options.do_scale, rp_dim=options.rp_dim)
    if method.standardises:  # row_norm limits rows once they are standardised
        schema = replace(schema, row_norm=None)
    spec = data.plan_entries(schema) if method.by_entries else data.plan(schema)
    if options.ledger is not None:
        _require_no_subset(options.ledger, spec)
    if method.by_class:
        spec = data.by_class(spec)
    else:
        require_usable_response(spec.response, promised=method.target.is_private)
    release_file.require_writable(spec)
    learned = 0.0 if method.buys_roc else cut  # a paid curve needs no score of each record
    scored = not method.by_class and data.require_scores(learned)
    n = len(data)  # Dask counts its records from here on
    if method.by_entries:
        require_below_one_record(method.target, n)
        warn_of_large_delta(method.target, n, stacklevel=5)
    if not guarantee.is_private:
        charge(options.ledger, guarantee, (), spec.formula.text)  # refused before data is read
    declared = spec
    if options.do_scale is True:
        declared = _scaled_by_data(spec, data)
    if options.rp_dim:
        declared = _projected(declared, options, n)
    if options.prior is not None:
        declared = replace(declared, prior=options.prior(declared, method.loss))
    if not method.by_entries:
        warn_of_one_record(guarantee, n, stacklevel=5)
    return declared, cut, scored


def _require_no_subset(ledger: Account, spec: AnySpec) -> None:
    """Refuse a subset of a part: one replaced record may leave a subset and enter another one.

    Weights of 0 leave records out as well, and so does a stratum alone.
    """
    formula = spec.formula
    alone = formula.by is not None and formula.by.level is not None
    chosen = {"subset=": formula.subset, "weights=": formula.weights, "by(...)": alone or None}
    named = next((name for name, term in chosen.items() if term is not None), None)
    places = () if named is None else ledger.places
    if any(part is not None for _, part in places):
        raise GuaranteeError(
            f"a part of a ledger is for data that no other part has; {named} chooses records of "
            "one table by their values, so charge the ledger itself."
        )


def _scaled_by_data(spec: Any, data: FrameData) -> Any:
    warnings.warn(
        "do_scale=True scales by means and deviations of the data, so the guarantee is void; "
        "declare bounds= instead.",
        PrivacyWarning,
        stacklevel=6,
    )
    return scale_by_data(spec, data.batch)[0]


def _projected(spec: Any, options: Options, n: int) -> Any:
    width = projection_width(options.rp_dim, n)
    if width > spec.p:
        warnings.warn(
            f"rp_dim={options.rp_dim}: {width} directions are more than the {spec.p} covariates, "
            "so nothing is projected.",
            PrivacyWarning,
            stacklevel=6,
        )
        return spec
    if width == 0:
        return spec
    return project(spec, drawn_normals(options.randomness, spec.p * width).reshape(spec.p, width))
