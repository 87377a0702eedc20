"""Law 19, what was bought: every number of inference is a function of the release, and it is right.

The part of the noise is compared with the spread of many releases on one frame.
"""

from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import MODELS, SCHEMA, clinic, fit_clinic, fixed_noise, replaced
from repeated_noise import drawn, trial

import privatelr.results.effects
import privatelr.results.fit_tables
from privatelr import Newton, average_marginal_effects, dplr
from privatelr.design import plan_design, read_design, standardise
from privatelr.mechanisms import draw, mechanism_of
from privatelr.mechanisms.stages.scale import row_map
from privatelr.numerics.rows import DenseRows
from privatelr.privacy.noise import SeededRandomness
from privatelr.sources import as_batch, declare_schema

REFERENCE = clinic(n=15, seed=8)
PENALISED_ALONE = {"mode": "conservative"}, {"method": "wkl"}
NEIGHBOURS = [{"age": 89.0}, {"y": 1.0, "dose": 5.0}, {"age": np.nan}, {"smoker": "unknown"}]


def everything(fit):
    """All that a user can ask about errors, as text."""
    asked = [
        *(fit.tvalues, fit.privacy_sd, fit.confint(0.9), fit.vcov(), fit.glance()),
        *(fit.conf_int(mode=mode) for mode in ("posterior", "plug-in")),
        *(fit.conf_int(target="penalised", **way) for way in PENALISED_ALONE),
        fit.conf_int(simultaneous=True),
        *(fit.contrasts("age - 2 * dose = 1"), fit.wald_test("age = 0, dose = 0")),
        average_marginal_effects(fit, REFERENCE),
        fit.predict(REFERENCE, interval=0.9, mode="posterior"),
    ]
    return as_text([*asked, *usual(fit)])


def usual(fit):
    """What most ask."""
    asked = [fit.bse, fit.pvalues, fit.conf_int(), fit.tidy(conf_int=True)]
    if fit.calibration.problem.loss.probability is not None:
        # over the training data it takes rows that no released scale has shortened
        over = () if fit.release.scale is None else (REFERENCE,)
        asked.append(average_marginal_effects(fit, *over))
    plain = replace(fit, _diagnostics=None)
    return [*asked, fit.predict(REFERENCE, interval=0.9), str(plain) + plain._repr_html_()]


def as_text(asked):
    return [x.to_csv() if hasattr(x, "to_csv") else repr(x) for x in asked]


def pair(monkeypatch, values, **options):
    """Fits of two neighbours under the same draw."""
    frame = clinic()
    with fixed_noise(monkeypatch):
        return [
            fit_clinic(data, spend="inference", **options)
            for data in (frame, replaced(frame, 0, **values))
        ]


def with_release(fit, release):
    """The fit as it is after another release, whose scale is a part of the map of the columns."""
    spec = fit.spec
    if release.scale is not None:
        plan = plan_design(spec.formula, as_batch(clinic()), declare_schema(**SCHEMA))
        plain = replace(spec, columns=plan.columns)
        spec = standardise(plain, *row_map(release.parts))
    return replace(fit, spec=spec, release=release)


def check_of_the_release_alone(monkeypatch, values, ask, **options):
    first, second = pair(monkeypatch, values, **options)
    assert (first.release.scale is not None) == (options.get("do_scale") == "private")
    given = with_release(first, second.release)
    for fit in (given, replace(given, _diagnostics=None)):
        assert as_text(ask(fit)) == as_text(ask(second))


@pytest.mark.slow
def test_law_of_all_that_can_be_asked(monkeypatch):
    check_of_the_release_alone(monkeypatch, NEIGHBOURS[0], everything, eps=20, do_scale=False)


@pytest.mark.parametrize("do_scale", [pytest.param(False, marks=pytest.mark.slow), "private"])
@pytest.mark.parametrize("values", NEIGHBOURS, ids=str)
def test_law(monkeypatch, values, do_scale):
    check_of_the_release_alone(monkeypatch, values, usual, eps=100, do_scale=do_scale)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("do_scale", [False, "private"])
@pytest.mark.parametrize("options", [{"op": False}, {"delta": 1e-6}], ids=str)
def test_law_of_every_model(monkeypatch, options, do_scale, model):
    options = {"do_scale": do_scale, **options}
    check_of_the_release_alone(monkeypatch, NEIGHBOURS[1], usual, model=model, eps=100, **options)


@pytest.mark.slow
def test_planted_errors_of_the_data_are_caught(monkeypatch):
    """Standard errors that a diagnostic of the training data enters."""
    honest = privatelr.results.fit_tables.infer_coefficients

    def curious(fit, *question):
        found = honest(fit, *question)
        if fit.has_diagnostics:
            found = replace(found, sampling_sd=found.sampling_sd * fit.diagnostics.c_index)
        return found

    monkeypatch.setattr(privatelr.results.fit_tables, "infer_coefficients", curious)
    with pytest.raises(AssertionError):
        check_of_the_release_alone(monkeypatch, NEIGHBOURS[1], usual, eps=20, do_scale=False)


@pytest.mark.slow
def test_planted_mean_over_the_records_is_caught(monkeypatch):
    """Marginal effects whose mean is taken over the training records, unpaid."""
    frames = iter([clinic(), replaced(clinic(), 0, **NEIGHBOURS[1])] * 2)

    def unpaid(fit, asked):
        p = fit.predict(next(frames))
        return float((p * (1 - p)).mean()), (0.0, 0.0)

    monkeypatch.setattr(privatelr.results.effects, "mean_curvature", unpaid)
    with pytest.raises(AssertionError):
        check_of_the_release_alone(monkeypatch, NEIGHBOURS[1], usual, eps=20, do_scale=False)


# -- the part of the noise -------------------------------------------------------------------

RELEASES = 300
MOST_FOR_INFERENCE = {"coefficients": 0.2, "inference": 0.8}


def spread_over_said(model=dplr, scale=1.0, **options):
    """Spread of many releases on one frame, over the part of the noise that one of them says."""
    frame = trial(2000)
    fit = drawn(fit_clinic, frame, model=model, spend=MOST_FOR_INFERENCE, **options)
    rows, calibration = read_design(fit.spec, as_batch(frame), DenseRows), fit.calibration
    release = mechanism_of(calibration.placement, calibration.target).release
    randomness = SeededRandomness(5)
    found = [
        release(rows, calibration, draw(calibration, randomness), Newton()).coef
        for _ in range(RELEASES)
    ]
    spread = (np.array(found) @ fit.spec.user_map().T).std(axis=0)
    return spread / (scale * fit.privacy_sd.to_numpy())


def check_privacy_part(ratio):
    # one standard error of a spread of 300 is 4 %; the released curvature adds a few
    assert (abs(ratio - 1) < 0.15).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"eps": 20.0},
        {"eps": 20.0, "op": False},
        {"eps": 10.0, "delta": 1e-6},
        {"eps": 40.0, "model": MODELS["dpsvm"]},
        {"eps": 40.0, "model": MODELS["softplus"]},
    ],
    ids=["objective", "output", "with a delta", "huber", "softplus"],
)
def test_the_part_of_the_noise_is_what_releases_spread_by(options):
    check_privacy_part(spread_over_said(**options))


def test_planted_part_is_caught():
    """A part half as large as it is."""
    with pytest.raises(AssertionError):
        check_privacy_part(spread_over_said(eps=20.0, scale=0.5))
