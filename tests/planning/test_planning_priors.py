"""`plan(prior=)`: the calibration of a fit with a prior, and what the penalty then leaves."""

import warnings

import numpy as np
import pandas as pd
import pytest

from privatelr import ZCDP, ArgumentError, PrivacyWarning, PureDP, dplr, dpsvm, plan
from privatelr.planning.forecast import errors, simulate

N = 4000
FORMULA = "y ~ x + u"
PUBLIC = {"bounds": {"x": (-1, 1), "u": (0, 3)}}
MEANS = {"(Intercept)": -3.0, "x": 1.0, "u": -0.5}
HELD = {"(Intercept)": -3.0, "x": (1.0, 0.05), "u": (-0.5, 0.3)}


def made(n=N, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n), "u": rng.uniform(0, 3, n)})
    link = -3 + frame["x"] - 0.5 * frame["u"]
    return frame.assign(y=rng.uniform(size=n) < 1 / (1 + np.exp(-link)))


FRAME = made()
SETTINGS = [
    (dplr, {"prior": MEANS}),
    (dplr, {"prior": HELD}),
    (dplr, {"prior": HELD, "op": False, "eps": ZCDP(0.1)}),
    (dplr, {"prior": HELD, "do_scale": "private"}),
    (dplr, {"prior": {"x": (1.0, 0.05)}, "spend": "inference"}),
    (dpsvm, {"prior": MEANS, "loss": "huber"}),
]


@pytest.mark.parametrize(("fitter", "options"), SETTINGS)
def test_the_calibration_is_the_one_of_a_fit_with_a_prior(fitter, options):
    options = {"spend": None, **options}
    fit = fitter(FORMULA, FRAME, **options, **PUBLIC)
    outlook = plan(FORMULA, N, **options, **PUBLIC)
    assert outlook.calibration.coefficients == fit.calibration
    assert outlook.calibration.coefficients.problem.centre > 0
    assert outlook.spec.prior == fit.spec.prior
    without = plan(FORMULA, N, **{**options, "prior": None}, **PUBLIC)
    scale = without.calibration.coefficients.noise.scale
    assert scale == pytest.approx(fit.calibration.noise.scale, rel=1e-5)
    if options.get("op", True):  # noise on the minimum is what it is wherever the minimum lies
        assert not (outlook.errors.privacy_sd == without.errors.privacy_sd).all()


@pytest.mark.parametrize("target", ["penalised", "unpenalised"])
def test_sampling_errors_are_those_of_a_plain_fit(target):
    asked = {"eps": 0, "lambda_": 0.02, "prior": HELD, "spend": "inference", **PUBLIC}
    outlook = plan(FORMULA, N, pilot=FRAME, **asked)
    fit = dplr(FORMULA, FRAME, **asked)
    found = errors(simulate(outlook.study), target=target).sd
    expected = fit.tidy(target=target)["std_error"]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    free = plan(FORMULA, N, pilot=FRAME, **{**asked, "prior": MEANS})
    kept, penalty = free.errors.kept[1], 0.02 * N
    information = penalty * kept / (1 - kept)  # x goes with no other column
    held = information / (information + 1 / 0.05**2)
    assert outlook.errors.kept[1] == pytest.approx(held, rel=0.02)


def test_the_noise_on_a_coefficient_that_is_held_is_that_of_releases():
    asked = {"eps": PureDP(0.5), "prior": HELD, "do_scale": False, **PUBLIC}
    outlook = plan(FORMULA, N, pilot=FRAME, spend=None, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of the seed
        found = [dplr(FORMULA, FRAME, seed=run, **asked).coef for run in range(300)]
    ratio = outlook.errors.privacy_sd / np.std(found, axis=0)
    assert np.abs(np.log(ratio)).max() < 0.15
    free = plan(FORMULA, N, pilot=FRAME, spend=None, **{**asked, "prior": MEANS})
    assert outlook.errors.privacy_sd[1] < 0.5 * free.errors.privacy_sd[1]


def test_widths_are_those_of_fits_with_a_prior():
    asked = {"eps": 2.0, "prior": HELD, "spend": "inference", **PUBLIC}
    outlook = plan(FORMULA, N, pilot=FRAME, **asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        ends = [dplr(FORMULA, FRAME, seed=run, **asked).conf_int().to_numpy() for run in range(40)]
    width = np.median([end[:, 1] - end[:, 0] for end in ends], axis=0)
    assert np.abs(np.log(outlook.intervals.width / width)).max() < 0.3


def test_the_page_says_what_the_penalty_draws_to_and_what_is_kept(tmp_path):
    outlook = plan(FORMULA, N, spend=None, prior=HELD, **PUBLIC)
    page = " ".join(str(outlook).split())
    assert "the penalty draws to (Intercept) = -3, x = 1 (sd 0.05), u = -0.5 (sd 0.3)" in page
    assert "kept: the share of a small difference from the prior that the penalty leaves" in page
    earlier = dplr(FORMULA, FRAME, eps=1, **PUBLIC)
    earlier.save(tmp_path / "earlier.json")
    for prior in (earlier, tmp_path / "earlier.json"):
        later = plan(FORMULA, N, spend=None, prior=prior, **PUBLIC)
        assert later.spec.prior.means == pytest.approx(earlier.coef.to_dict())
    with pytest.raises(ArgumentError, match=r"earlier fit is y, and here it is x > 0; prior takes"):
        plan("x > 0 ~ u", N, spend=None, prior=earlier, bounds={"u": (0, 3)})
    assert "kept: the share of a small effect" in " ".join(
        str(plan(FORMULA, N, spend=None, **PUBLIC)).split()
    )


@pytest.mark.parametrize(
    ("formula", "prior", "words"),
    [
        (FORMULA, {"z": 1.0}, "no coefficient 'z'"),
        (FORMULA, 3, "prior=3"),
        (3, {"x": 1.0}, "no coefficient 'x'"),
    ],
)
def test_what_is_no_prior_is_refused(formula, prior, words):
    with pytest.raises(ArgumentError, match=words):
        plan(formula, N, spend=None, prior=prior, **(PUBLIC if formula == FORMULA else {}))
