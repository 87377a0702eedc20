"""Sentences on the pages about a fit: guarantee, mechanism, rows, lambda, and errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from privatelr.design import AnySpec, DesignSpec
from privatelr.errors import count_of, listed
from privatelr.inference import Inference, quality
from privatelr.mechanisms import STAGES, in_order
from privatelr.mechanisms.calibration import Calibration
from privatelr.mechanisms.request import COEFFICIENTS, SCALE
from privatelr.mechanisms.stages.histogram import HistogramCalibration
from privatelr.mechanisms.stages.scale import ScaleCalibration, share_of_price
from privatelr.numerics import Loss, describe
from privatelr.page_model import on_one_line
from privatelr.privacy import (
    REPLACE_PERSON,
    ZCDP,
    Event,
    Guarantee,
    Neighbours,
    NonPrivate,
    SharedApproxDP,
    compose,
)
from privatelr.privacy.accounting import Receipt
from privatelr.results.fit_record import ModelRecord, NoisyRecord
from privatelr.results.predict import scale_of
from privatelr.types import FACTOR_SCALE

Facts = list[tuple[str, str]]
SOURCES = {
    "operating system": "drawn from the operating system, and not kept",
    "seed": "drawn from a seed, so whoever has the seed can take it off",
    "no noise": "there is none",
}
_UNMOVED = "none: the minimiser of loss and penalty itself"
BY_BOUNDS = "declaring bounds={name: (lo, hi)} maps each variable onto [-1, 1]"
_REMEDY = f"{BY_BOUNDS}, and usually loses less than shortening"
UNSEEN = "the fit estimated none of it from the data"


def title(fit: ModelRecord) -> str:
    """The kind of the model, and whether its fit is private."""
    how = "Non-private" if isinstance(fit.guarantee, NonPrivate) else "Differentially private"
    what = fit.kind.title(fit)
    what = f"multinomial {what}" if fit.spec.response.kind == "classes" else what
    return f"{how} {what}"


def unseen_records(fit: ModelRecord) -> list[str]:
    """What no private page can tell: whether any record was used."""
    line = "If no record could be used, this page would look the same: run check() first."
    return [line] if fit.guarantee.is_private else []


def size(n: int, relation: Neighbours) -> str:
    """The number of what neighbours replace, as ``n = 944 records``."""
    return f"m = {n} persons" if relation is REPLACE_PERSON else f"n = {n} records"


def neighbours(promise: str, n: int, relation: Neighbours) -> str:
    """A guarantee with its neighbouring relation; n is the number of what is replaced."""
    replaced = "all records of one" if relation is REPLACE_PERSON else "one"
    return f"{promise}; neighbours replace {replaced} of {size(n, relation)}"


def of_strata(fit: ModelRecord) -> str:
    """What follows a number of records that is not of one stratum alone."""
    return " of all strata" if fit.spec.formula.by else ""


def promise(fit: ModelRecord) -> str:
    """The guarantee, and the releases that it covers."""
    if isinstance(fit.guarantee, NonPrivate):
        return f"{fit.guarantee}; nothing on this page is private"
    covered = f"{fit.guarantee}{fit.kind.bought(fit)}"
    told = neighbours(covered, fit.nobs, fit.guarantee.neighbours) + of_strata(fit)
    return "; ".join(filter(None, (told, beyond_promise(fit.spec))))


def bought_with_noise(fit: NoisyRecord) -> str:
    """The parts of a guarantee that was divided between stages."""
    parts = targets(fit)
    return f": {divided(parts)}" if len(parts) > 1 else ", coefficients only"


def events_of_noise(fit: NoisyRecord) -> tuple[Event, ...]:
    """The events of all stages, in the order of their releases."""
    stages = in_order({**fit.release.parts, COEFFICIENTS: fit.release})
    return tuple(event for stage in stages.values() for event in stage.calibration.events)


def targets(fit: ModelRecord) -> dict[str, Guarantee]:
    """Return the part of each stage, in the order of their releases."""
    found = {name: part.calibration.target for name, part in fit.release.parts.items()}
    return in_order({**found, COEFFICIENTS: fit.release.calibration.proven})


def divided(parts: Mapping[str, Guarantee]) -> str:
    """Return the numbers of each part of a guarantee; Gaussian parts of a delta by their mu."""
    told = {name: str(part).partition(" (")[0] for name, part in parts.items()}
    if len({type(part) for part in parts.values()}) == 1:
        return ", ".join(f"{name} {part}".replace(", ", " and ") for name, part in told.items())
    for name, part in parts.items():
        told[name] = f"{STAGES[name].noise_by} of {told[name]}"
        if isinstance(part, ZCDP | SharedApproxDP):
            mu = f"of mu = {math.sqrt(2 * part.rho):.3g}" if isinstance(part, ZCDP) else ""
            told[name] = f"Gaussian noise {mu or 'with what is left'}"
    return ", ".join(f"{name} by {by}" for name, by in told.items()) + ", composed exactly"


def mechanism(calibration: Calibration) -> str:
    """The place, the law and the scale of the noise."""
    noise = calibration.noise
    if noise.scale == 0:
        return _UNMOVED
    return (
        f"{calibration.placement} perturbation, {noise.title} noise, scale {noise.scale:.3g} "
        f"({calibration.bound})"
    )


def loss(found: Loss) -> Facts:
    """The line about a loss with parameters; nothing for a loss without any."""
    return [("Loss", describe(found))] if found.parameters else []


def _projection(spec: DesignSpec) -> Facts:
    """The line about a projection; nothing without one."""
    if spec.projection is None:
        return []
    p, q = spec.projection.shape
    return [("Projection", f"{p} covariates onto {q} random directions, drawn without the data")]


def facts_of_noise(fit: NoisyRecord, found: Inference | None) -> Facts:
    """The lines of the page about noise, rows, lambda and inference."""
    calibration, moments = fit.calibration, fit.release.moments
    end = "zero" if fit.spec.prior is None else "the prior"
    shrunk = f"; coefficients are penalised by it, that is, shrunk towards {end}"
    if found is not None and found.target == "unpenalised":
        shrunk = "; it shrinks the released coefficients, which the table corrects"
    penalty = f"{calibration.lambda_:.3g}, {calibration.lambda_origin}"
    facts = [
        ("Mechanism", mechanism(calibration)),
        *_scale(fit),
        ("Rows", _row_bounds(fit.spec)),
        *beside_terms(fit.spec),
        ("Response", fit.spec.response.describe()),
        *loss(fit.loss),
        ("Lambda", penalty + (shrunk if calibration.lambda_ else "")),
        *_projection(fit.spec),
        *roc_facts(fit),
    ]
    if moments is None or found is None:
        return facts
    known, noise = quality(fit.release), moments.calibration.noise
    size = f"{known.relative_bias:.3g}" if math.isfinite(known.relative_bias) else "not known"
    bias = f"relative bias of the penalty {size}"
    text = f"information matrix and scores of the data, without noise; {bias}"
    if noise.scale > 0:
        text = (
            f"information matrix and scores with {noise.title} noise, which is "
            f"{known.told_noise}; {bias}; "
            f"{found.mode} mode, {found.target} coefficients"
        )
    if calibration.problem.persons:
        text += "; scores by person, so that records of one may go together (cluster-robust)"
    return [*facts, ("Inference", text)]


def roc_facts(fit: ModelRecord) -> Facts:
    """Return what was bought about how well the fit tells the classes apart, if it was."""
    if not fit.has_roc:
        return []
    found = fit.roc
    if math.isnan(found.auc):
        words = (
            "the noise leaves one class empty, so that there is no C-index, and no threshold but "
            f"{scale_of(fit.loss).fixed:g}"
        )
    else:
        words = (
            f"C-index (AUC) {found.auc:.3f} with standard error {found.auc_std_error:.3f}, "
            f"thresholds {found.youden:.3f} (youden) and {found.topleft:.3f} (topleft)"
        )
    return [("ROC curve", f"{words}; {scores(found.release.calibration)}; fit.roc has more")]


def scores(made: HistogramCalibration) -> str:
    """How scores were counted for a ROC curve, and that it was paid for."""
    counts = f"counts of scores in {made.bins} bins of either class"
    if not made.target.is_private:
        return f"by exact {counts}"
    noise = f"{made.noise.family} noise of sd {made.count_sd:.3g} on each"
    return f"paid for with {made.target}, by {counts}, with {noise}"


def _scale(fit: NoisyRecord) -> Facts:
    """Return what was bought to standardise the rows, if it was."""
    made = fit.release.scale
    if made is None:
        return []
    words = scale(made.calibration, fit.calibration, targets(fit))
    first = fit.spec.d - made.calibration.facts.p
    names = [fit.spec.columns.names[first + number] for number in made.thin[0]]
    if names:
        words += f", and for a range of {listed(names)}, because that noise hides the spread"
    return [("Scale", f"{words}; fit.scale has them")]


def scale(
    bought: ScaleCalibration, coefficients: Calibration, parts: Mapping[str, Guarantee]
) -> str:
    """The share of the price that standardises the rows, what it buys, and the noise."""
    others = [part for name, part in parts.items() if name not in (SCALE, COEFFICIENTS)]
    k, (share, price) = len(bought.means), share_of_price(bought, coefficients, others)
    return (
        f"{100 * share:.3g} % of {price} for means and standard deviations of {k} "
        f"column{'s' if k != 1 else ''}, with {bought.noise.title} noise of sd "
        f"{bought.mean_sd:.3g} on a mean whose bounds are -1 and 1"
    )


def standardised(spec: DesignSpec) -> str:
    """How rows are mapped by the moments and the length that were released."""
    assert spec.standard is not None
    held = spec.standard
    centred = "centred and scaled" if held.centred else "scaled"
    apart = held.blocks and any(one.kind != "number" for one in held.groups)
    columns = "columns"
    if apart:
        products = any(one.number is not None for one in held.groups)
        columns = f"numbers{' and their products with levels' if products else ''}"
    columns += f" {centred} by the released moments"
    if held.length is None:
        how = "records longer than a released length count less"
        if held.released is not None:
            most = f"{held.released:.3g} lengths of a typical one (released)"
            how = f"records longer than {most} count less"
        if held.released == math.inf:
            how = "no record counts less for its length"
    else:
        most = f"{held.length:g} length{'s' if held.length != 1 else ''} of a typical one"
        whole = f"rows{' of them' if apart else ''}"
        how = f"{whole} {'brought' if held.unit else 'shortened'} to {most}"
        if held.weighted:
            how = f"records longer than {most} count less"
    placed = any(one.middle or one.factor != FACTOR_SCALE for one in held.groups)
    halves = ", those of two levels at -1 and 1" if placed else ""
    return f"{columns}, {how}" + (
        f", other columns times {FACTOR_SCALE:g}{halves}" if apart else ""
    )


def _row_bounds(spec: DesignSpec) -> str:
    radius = f"radius R = {spec.radius:.3g}"
    if spec.scaled_by_data:
        return f"{radius}; columns were scaled by the data's own means, deviations and longest row"
    if spec.bound_source == "declared bounds":
        return f"{radius} from declared bounds; {UNSEEN}"
    if spec.standard is not None:
        return f"{radius}; {standardised(spec)}"
    if spec.bound_source == "declared bounds and row_norm":
        return f"{radius} from declared bounds; {_shortened_apart(spec)}; {_REMEDY} them"
    shortened = f"{radius}, covariates shortened to length {spec.bound:.3g} (row_norm)"
    if not spec.has_names:
        return f"{shortened}; {UNSEEN}"
    if not spec.unbounded:
        return f"{shortened}, below what the declared bounds give"
    return f"{shortened}: no bounds for {', '.join(spec.unbounded)}; {_REMEDY} whole rows"


def _shortened_apart(spec: DesignSpec) -> str:
    """The bound on the terms without bounds, for a design that also has terms with bounds."""
    length = f"to length {spec.unbounded_norm:.3g} (row_norm)"
    if len(spec.unbounded) == 1:
        return f"{spec.unbounded[0]} has none and is shortened {length}"
    return f"{', '.join(spec.unbounded)} have none and are shortened together {length}"


# -- lines of the card -------------------------------------------------------------------------


def facts_of_card(fit: ModelRecord, document: dict[str, Any]) -> Facts:
    """The lines of the card about how a fit was made, each a label and a text."""
    # the software that made the fit; of a fit from a file only its statement is known
    software = fit.origin.written_by if fit.origin else document["written_by"].items()
    by_its_word = "; so its file states" if fit.origin else ""
    cut, entry = fit.threshold, fit.entry
    learned = isinstance(cut, str)
    threshold = f"learned ({cut}), not private" if learned else f"{cut:g}, public"
    if learned and fit.has_roc:
        threshold = f"read from the ROC curve ({cut}), which the guarantee covers"
    ledger = "no ledger was charged"
    if entry is not None:
        part = f", part {entry.part!r}" if entry.part is not None else ""
        times = f", {entry.times} times" if entry.times > 1 else ""
        ledger = f"charged with {entry.guarantee} for {entry.label!r}{part}{times}"
        ledger += "".join(f"; {_place_of(receipt)}" for receipt in entry.receipts)
    bought = fit.kind.bought(fit) if fit.guarantee.is_private else ""
    persons = fit.guarantee.neighbours is REPLACE_PERSON
    records = f"of m = {fit.nobs} persons" if persons else f"n = {fit.nobs}"
    return [
        ("Guarantee", f"{fit.guarantee}{bought}"),
        *paid_before([fit.spec], fit.guarantee),
        ("Neighbours", fit.guarantee.neighbours.value),
        ("Records", records + of_strata(fit)),
        *fit.kind.facts(fit, None),
        *fit.kind.details(fit),
        ("Randomness", f"{SOURCES[document['randomness']]}{by_its_word}"),
        *([] if fit.spec.response.kind == "classes" else [("Threshold", threshold)]),
        ("Ledger", ledger),
        ("Software", ", ".join(f"{name} {version}" for name, version in software)),
    ]


def _place_of(receipt: Receipt) -> str:
    """Say where a charge stands in a ledger on disk; its hash stands for all rows up to it."""
    name = on_one_line(receipt.dataset) or "unnamed data"
    return f"row {receipt.row} of the ledger of {name} ({receipt.ledger}), head {receipt.head}"


def details_of_noise(fit: NoisyRecord) -> Facts:
    """The lines of the card alone, about the rows and the noise of each stage."""
    calibration, intercept = fit.calibration, fit.spec.intercept
    problem, noise, shield = calibration.problem, calibration.noise, calibration.shield
    constant = "no intercept" if intercept is None else f"intercept {intercept:g}"
    width = f"d = {count_of(problem.d, 'column')}, {constant}"
    facts = [("Design", f"{width}, no row longer than R = {problem.radius:.6g}")]
    if problem.is_multinomial:
        words = f"softmax of {problem.classes} classes, each with coefficients for all columns"
        facts.append(("Loss", words))
    if noise.scale > 0:
        place = "objective" if calibration.placement == "objective" else "minimiser"
        covers = f"{shield.title}, scale {shield.scale:.6g}, which covers the approximate minimum"
        certified = (
            f"gradient of the objective in its sum form at most {calibration.tau:.6g}; the "
            "distance to the exact minimiser is covered by the guarantee"
        )
        rounding = f"to multiples of {calibration.grid:.6g}, decided exactly"
        facts += [
            ("Noise", f"{noise.title}, scale {noise.scale:.6g}, added to the {place}"),
            *([("Small noise", covers)] if shield.scale > 0 else []),
            ("Certificate", certified),
            ("Rounding", rounding),
        ]
    for name, part in in_order(fit.release.parts).items():
        facts += STAGES[name].facts(part)
    return facts


def beyond_promise(spec: AnySpec) -> str:
    """What a promise leaves out because of the prior: records of an earlier fit without one."""
    if spec.prior is None or not spec.prior.uncovered:
        return ""
    return "records of the earlier fit behind the prior are not covered, as it has no guarantee"


def paid_before(specs: Iterable[Any], guarantee: Guarantee, what: str = "the fit") -> Facts:
    """What was paid for bounds and levels apart from fits, and the promise of all of it.

    What several of the fits use was paid once. The guarantee is that of `what`, such as all fits.
    """
    paid = [*dict.fromkeys(one for spec in specs for one in getattr(spec, "paid", ()))]
    facts = [
        (one.kind.capitalize(), f"of {listed(one.columns, 6)} {_price_of(one)}") for one in paid
    ]
    if not facts:
        return []
    prices = [guarantee, *(one.guarantee for one in paid)]
    if any(isinstance(one, NonPrivate) for one in prices):
        words = f"no promise for {what} and these together, since not all of them have one"
    elif len({one.neighbours for one in prices}) > 1:
        words = (
            "no promise in one number, since some of this is about records and some about persons; "
            "suggest_bounds and levels_from take the person= of the fit"
        )
    else:
        words = f"{compose(prices)}, for {what} and these, if they are of the same data"
    return [*facts, ("In all", words)]


def _price_of(one: Any) -> str:
    paid = "were paid separately: {}" if one.guarantee.is_private else "have no promise ({})"
    return f"{paid.format(one.guarantee)}, of {size(one.n, one.guarantee.neighbours)}"


def sentences_of_paid(specs: Iterable[Any], guarantee: Guarantee) -> list[str]:
    """The same about several fits as sentences, for pages without a list of facts."""
    facts = paid_before(specs, guarantee, "the fits")
    return [f"{label}{':' * (label == 'In all')} {words}." for label, words in facts]


def beside_terms(spec: AnySpec) -> Facts:
    """What stands beside the terms: offsets, which records count and how much, and a prior."""
    facts, weight = [], spec.weight
    about_persons = getattr(spec.formula, "person", None) is not None
    counted = "their persons belong to m" if about_persons else "belong to n"
    if spec.offsets:
        ranges = ((part.expression.label, *part.interval) for part in spec.offsets)
        words = ", ".join(
            f"{label} between {low:.3g} and {high:.3g}" for label, low, high in ranges
        )
        facts.append(("Offset", f"{words}, by declared bounds; it needs no noise of its own"))
    if weight is not None and weight.subset is not None:
        words = f"records for which {weight.subset.label}; the others are rows of zeros"
        facts.append(("Subset", f"{words}, and {counted}"))
    if weight is not None and weight.stratum is not None:
        by = weight.stratum
        words = f"{by.column} = {by.level}; records of other levels are rows of zeros"
        count = len(spec.variables[by.column].levels)
        paid = f"the price is that of the fits to all {count} levels together"
        facts.append(("Stratum", f"{words}, and {counted}; {paid}"))
    if weight is not None and weight.factor is not None:
        used = weight.factor.expression
        share = f"{used.label if used.bare() else f'({used.label})'} / {weight.most:.3g}"
        words = f"a record counts {share}, by declared bounds; far less than 1 wastes price"
        facts.append(("Weights", words))
    if spec.prior is not None:
        sds = {name: f" (sd {sd:.3g})" for name, sd in spec.prior.sds.items()}
        means = [
            f"{name} = {mean:.4g}{sds.get(name, '')}" for name, mean in spec.prior.means.items()
        ]
        shown = ", ".join(means[:6]) + (", ..." if len(means) > 6 else "")
        words = f"the penalty draws to {shown}, {spec.prior.source}, which is taken as public"
        facts.append(("Prior", words))
    return facts
