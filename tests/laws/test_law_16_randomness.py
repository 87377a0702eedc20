"""Law 16: noise comes from the operating system; a seed is explicit and voids the guarantee."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import MODELS, FixedRandomness, clinic, fit_clinic, require_fresh

import privatelr as lr
import privatelr.fitting
import privatelr.mechanisms.registry
import privatelr.method
from privatelr import ZCDP, ApproxDP, Newton, NonPrivate, PrivacyWarning, PureDP
from privatelr.mechanisms import draw
from privatelr.privacy.noise import SeededRandomness, SystemRandomness

EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def check_fresh_noise(op=True, **options):
    frame = clinic()
    coefs = []
    for _ in range(3):
        np.random.seed(0)  # noqa: NPY002  # the global generator must have no say
        coefs.append(fit_clinic(frame, op=op, **options).coef)
    require_fresh(coefs)


@EVERY_MODEL
@pytest.mark.parametrize("op", [True, False])
def test_law(model, op):
    check_fresh_noise(op, model=model)
    assert fit_clinic(clinic(), op=op, model=model).guarantee == PureDP(1.0)


def check_fresh_noise_of_moments(monkeypatch, **options):
    """At the same coefficients, whose noise is held fixed, the moments are new."""
    frame = clinic()
    with monkeypatch.context() as patch:
        honest = privatelr.mechanisms.registry.draw
        fixed = FixedRandomness()
        patch.setattr(privatelr.mechanisms.registry, "draw", lambda c, _: honest(c, fixed))
        first, second = (fit_clinic(frame, spend="inference", **options) for _ in range(2))
    np.testing.assert_array_equal(first.coef, second.coef)
    same = first.release.moments.values == second.release.moments.values
    assert np.count_nonzero(same) < 5  # of twenty on a grid, one may meet by chance


@EVERY_MODEL
@pytest.mark.parametrize("eps", [1.0, ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
def test_law_of_moments(monkeypatch, model, eps):
    check_fresh_noise_of_moments(monkeypatch, model=model, eps=eps)


@EVERY_MODEL
def test_no_seed_by_default(model):
    assert inspect.signature(model).parameters["seed"].default is None


@EVERY_MODEL
def test_a_seed_warns_repeats_and_voids(model):
    frame = clinic()
    fits = []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match="seed=3"):
            fits.append(fit_clinic(frame, seed=3, rp_dim=2, model=model))
    np.testing.assert_array_equal(fits[0].coef, fits[1].coef)
    assert fits[0].guarantee == NonPrivate("void: seeded noise")
    assert "void: seeded noise" in str(fits[0])
    assert "epsilon = 1" not in str(fits[0])


ANSWERS = {
    "curve": lambda fit, **more: fit.private_roc(clinic(), **more),
    "choice": lambda fit, **more: lr.choose({"a": fit, "b": fit}, clinic(), eps=0.3, **more),
    "bounds": lambda fit, **more: lr.suggest_bounds(clinic(), {"age": (0, 200)}, 4.0, **more),
    "levels": lambda fit, **more: lr.levels_from(clinic(), "smoker", 4.0, 1e-6, **more),
    "bought curve": lambda fit, **more: (
        fit_clinic(clinic(), spend={"coefficients": 0.75, "roc": 0.25}, **more).roc
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_seed_of_an_answer_warns_repeats_and_voids(kind):
    fit, found = fit_clinic(clinic()), []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match="seed=3") as caught:
            found.append(ANSWERS[kind](fit, seed=3))
        assert caught[-1].filename == __file__ or kind == "bought curve"
    assert str(found[0]) == str(found[1])
    assert not found[0].guarantee.is_private
    with pytest.warns(PrivacyWarning), pytest.raises(lr.GuaranteeError):
        ANSWERS[kind](fit, seed=3, ledger=lr.Ledger(9.0, 1e-5))


@EVERY_MODEL
def test_one_draw_per_fit(monkeypatch, model):
    """No redraw: the noise of a fit is drawn once, whatever the solver meets."""
    draws = []
    honest = SystemRandomness.draw
    monkeypatch.setattr(
        SystemRandomness, "draw", lambda self, law: draws.append(law) or honest(self, law)
    )
    for op in (False, True):
        hard = {"solver": Newton(max_iterations=1), "model": model}
        fit = fit_clinic(clinic().assign(y=1.0), op=op, **hard)
        assert draws == [fit.calibration.noise, fit.calibration.shield]
        draws.clear()
        both = fit_clinic(clinic().assign(y=1.0), op=op, spend="inference", **hard)
        moments = both.release.moments.calibration
        assert draws == [moments.noise, both.calibration.noise, both.calibration.shield]
        draws.clear()
        spend = {"coefficients": 0.75, "roc": 0.25}
        scored = fit_clinic(clinic().assign(y=1.0), op=op, spend=spend, **hard)
        counts = scored.release.histogram.calibration
        assert draws == [counts.noise, scored.calibration.noise, scored.calibration.shield]
        str(scored.roc), scored.roc.tidy()  # looking at it draws nothing
        assert len(draws) == 3
        draws.clear()


def test_the_noise_is_not_kept():
    """b and w together give the data's gradient away; nothing of the fit holds b."""
    import pickle

    fit = fit_clinic(clinic())
    assert "noise" not in {name for name in dir(fit.release) if not name.startswith("_")}
    assert len(pickle.dumps(fit.calibration.noise)) < 500  # a law: blocks and rate
    held = draw(fit.calibration, SystemRandomness()).noise
    with pytest.raises(TypeError, match="not copied"):
        pickle.dumps(held)
    assert repr(held).startswith("<privatelr")  # no bits in it
    moments = fit_clinic(clinic(), spend="inference").release.moments
    assert {name for name in dir(moments) if not name.startswith("_")} == {
        *("values", "calibration", "curvature", "scores")
    }
    assert len(pickle.dumps(moments.calibration.noise)) < 500


@EVERY_MODEL
@pytest.mark.parametrize("op", [True, False])
def test_planted_bug_is_caught(monkeypatch, op, model):
    """The same noise in every run, as in lrsimple.c."""
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", lambda: SeededRandomness(1))
    with pytest.raises(AssertionError):
        check_fresh_noise(op, model=model)


def test_planted_reuse_for_the_moments_is_caught(monkeypatch):
    """The noise of the moments made from a number that every fit shares."""
    honest = privatelr.method.draw_all

    def reusing(plan, randomness):
        drawn = honest(plan, randomness)
        return replace(drawn, others={"inference": SeededRandomness(1).draw(plan.moments.noise)})

    monkeypatch.setattr(privatelr.method, "draw_all", reusing)
    with pytest.raises(AssertionError):
        check_fresh_noise_of_moments(monkeypatch)


def test_planted_noise_that_serves_twice_is_caught(monkeypatch):
    """Every draw kept for the next fit, and then thrown away."""
    honest, kept = privatelr.mechanisms.registry.draw, {}

    def twice(calibration, randomness):
        if len(kept) == 0:
            kept["draw"] = honest(calibration, randomness)
            return kept["draw"]
        return kept.pop("draw")

    monkeypatch.setattr(privatelr.mechanisms.registry, "draw", twice)
    with pytest.raises(AssertionError):
        check_fresh_noise()
