"""``prior=``: coefficients to which the penalty draws, in the place of zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import privatelr
from privatelr import ZCDP, PrivacyWarning, dplr, dpsvm
from privatelr.audit.density import exact
from privatelr.audit.density.loss import search
from privatelr.call_data import read_data
from privatelr.cli import main
from privatelr.design import LONGEST_MARGIN, Prior, centre_of
from privatelr.errors import ArgumentError
from privatelr.mechanisms import draw, signed_rows
from privatelr.mechanisms.calibration import certified_norm
from privatelr.mechanisms.perturbation import release_minimiser
from privatelr.numerics.solve import Newton
from privatelr.privacy.noise import SystemRandomness
from privatelr.sources import declare_schema

N = 3000
BOUNDS = {"x": (-1, 1), "u": (0, 3), "y": (0, 1)}
MEANS = {"(Intercept)": -3.0, "x": 1.0, "u": -0.5}


def made(n: int = N, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, n), "u": rng.uniform(0, 3, n)})
    frame["g"] = pd.Categorical.from_codes(rng.integers(0, 3, n), list("abc"))
    link = -3 + frame["x"] - 0.5 * frame["u"]
    frame["y"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-link))).astype(int)
    return frame


FRAME = made()


def plan_of(formula: str, **declared):
    return read_data(formula, FRAME, None).plan(declare_schema(bounds=BOUNDS, **declared))


# --- what a fit computes --------------------------------------------------------------------


@pytest.mark.parametrize("fitter", [dplr, dpsvm])
def test_a_plain_fit_minimises_the_loss_and_the_distance_to_the_prior(fitter) -> None:
    fit = fitter("y ~ x + u", FRAME, 0, 0.05, bounds=BOUNDS, prior=MEANS)
    x = np.column_stack([np.full(N, 0.5), FRAME["x"], (FRAME["u"] - 1.5) / 1.5])
    y, loss = 2 * FRAME["y"].to_numpy() - 1, fit.loss
    centre = np.array([(-3 - 0.75) / 0.5, 1, -0.75])
    assert np.allclose(fit.release.centre, centre)

    def value(w: np.ndarray) -> float:
        return float(loss.value(y * (x @ w)).mean() + 0.025 * ((w - centre) ** 2).sum())

    best = optimize.minimize(value, centre, method="BFGS", options={"gtol": 1e-9})
    assert np.abs(fit.release.coef - best.x).max() < 1e-5


@pytest.mark.parametrize(
    "options",
    [{}, {"do_scale": "private"}, {"op": False}, {"delta": 1e-6}, {"eps": ZCDP(20.0)}],
    ids=str,
)
def test_a_large_penalty_leaves_the_prior(options: dict) -> None:
    asked = {"eps": 1e3, "lambda_": 50.0, "bounds": BOUNDS, "do_scale": False, **options}
    fit = dplr("y ~ x + u", FRAME, prior=MEANS, **asked)
    assert np.abs(fit.coef - pd.Series(MEANS)).max() < 0.1
    plain = dplr("y ~ x + u", FRAME, **asked)
    assert np.abs(plain.coef - pd.Series(MEANS)).max() > 1


def test_coefficients_without_a_mean_are_drawn_to_zero_in_the_design() -> None:
    spec = plan_of("y ~ x + u + g")
    given = Prior({"u": 2.0}, "as given").for_plan(spec, only_shared=False)
    centre = centre_of(replace(spec, prior=given))
    assert np.allclose(centre, [0, 0, 3.0, 0, 0])
    assert centre_of(spec) is None


# --- privacy --------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize(
    "target", [{}, {"delta": 1e-6}, {"op": False}, {"spend": "inference"}, {"do_scale": "private"}]
)
def test_no_noise_depends_on_the_prior(target: dict) -> None:
    declared = {"bounds": BOUNDS, "eps": 1.0, "do_scale": False, **target}
    fits = [dplr("y ~ x + u", FRAME, prior=p, **declared) for p in (None, MEANS, {"x": -40.0})]
    plain, one, other = (fit.calibration for fit in fits)
    assert one == other  # the accuracy of the minimum is that of any prior
    assert one.problem.lambda_ == plain.problem.lambda_
    sds = [np.sqrt(found.noise.variances) for found in (one, plain)]
    assert np.allclose(*sds, rtol=1e-6)
    assert one.tau > plain.tau


@pytest.mark.parametrize("claim", [{"eps": 1.0}, {"eps": ZCDP(0.5)}])
def test_the_loss_of_neighbours_is_that_of_a_shifted_tilt(claim: dict, monkeypatch) -> None:
    """The audit of the same calibration, with the prior in the gradient of both sides."""
    fit = dplr("y ~ x", FRAME, bounds=BOUNDS, do_scale=False, prior={"x": 3.0}, **claim)
    honest = exact.gradient

    def drawn(data, problem, w):
        return honest(data, problem, w) - problem.penalty * fit.release.centre

    for module in (exact, signed_rows):
        monkeypatch.setattr(module, "gradient", drawn)
    found = search(fit.calibration, np.random.default_rng(1), 2)
    assert 0.1 < found.loss.ratio <= 1


def test_a_calibration_for_no_prior_refuses_one() -> None:
    fit = dplr("y ~ x", FRAME, 1.0, bounds=BOUNDS, do_scale=False)
    data = read_data("y ~ x", FRAME, None)
    rows, _ = data.rows(fit.spec, bar=False)
    drawn = draw(fit.calibration, SystemRandomness())
    with pytest.raises(privatelr.GuaranteeError, match="longer than 0"):
        release_minimiser(rows, fit.calibration, drawn, Newton(), np.array([1.0, 0.0]))


def test_the_certificate_covers_the_longest_prior() -> None:
    fit = dplr("y ~ x", FRAME, 1.0, bounds=BOUNDS, prior={"x": 1.0})
    problem = fit.calibration.problem
    assert problem.centre == LONGEST_MARGIN / problem.radius
    assert np.linalg.norm(fit.release.centre) <= problem.centre
    assert fit.calibration.tau >= certified_norm(problem, fit.calibration.noise)


@pytest.mark.parametrize("columns", [2, 90])
def test_a_far_prior_of_many_columns_is_certified(columns: int) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        rng.uniform(-1, 1, (500, columns)), columns=[f"a{j}" for j in range(columns)]
    )
    bounds = dict.fromkeys(frame.columns, (-1, 1)) | {"y": (0, 1)}
    frame["y"] = rng.integers(0, 2, 500)
    for target in ({}, {"delta": 1e-6}):
        fit = dplr("y ~ .", frame, 1.0, bounds=bounds, prior={"a1": 7.0}, **target)
        assert np.isfinite(fit.coef).all()


# --- inference ------------------------------------------------------------------------------


def test_the_step_takes_off_what_draws_to_the_prior() -> None:
    """With a penalty of weight, the unpenalised estimates agree with those of no penalty."""
    truth = dplr("y ~ x + u", FRAME, 0, 1e-9, bounds=BOUNDS).coef
    asked = {"bounds": BOUNDS, "spend": "inference", "do_scale": False}
    drawn = dplr("y ~ x + u", FRAME, 0, 0.003, prior=MEANS, **asked)
    plain = dplr("y ~ x + u", FRAME, 0, 0.003, **asked)
    off, far = (
        np.abs(f.tidy(target="unpenalised").set_index("term")["estimate"] - truth).max()
        for f in (drawn, plain)
    )
    assert off < 0.1 * np.abs(drawn.coef - truth).max() + 0.02
    assert off < far / 3
    far_off = dplr("y ~ x + u", FRAME, 0, 0.003, prior={**MEANS, "x": -1.0}, **asked)
    assert far_off.coef["x"] < truth["x"]
    estimate = far_off.tidy(target="unpenalised").set_index("term")["estimate"]
    assert abs(estimate["x"] - truth["x"]) < abs(far_off.coef["x"] - truth["x"]) / 2


# --- sources --------------------------------------------------------------------------------


def test_an_earlier_fit_or_its_file_is_a_prior(tmp_path) -> None:
    old = dplr("y ~ x + u", made(seed=5), 5.0, bounds=BOUNDS)
    old.save(tmp_path / "old.json")
    asked = {"bounds": BOUNDS, "do_scale": False, "seed": None}
    fits = [
        dplr("y ~ x + g", FRAME, 1.0, prior=p, **asked) for p in (old, str(tmp_path / "old.json"))
    ]
    for fit in fits:
        assert fit.spec.prior.means == {n: old.coef[n] for n in ("(Intercept)", "x")}
        assert "of an earlier fit (y ~ x + u, epsilon = 5" in " ".join(str(fit).split())
    void = dplr("y ~ x", FRAME, 0, bounds=BOUNDS)
    with pytest.warns(PrivacyWarning, match="protects none of its records"):
        new = dplr("y ~ x", FRAME, 1.0, bounds=BOUNDS, prior=void)
    said = "records of the earlier fit behind the prior are not covered, as it has no guarantee"
    new.save(tmp_path / "new.json")
    again = privatelr.load(tmp_path / "new.json")
    later = dplr("y ~ x", FRAME, 1.0, bounds=BOUNDS, prior=again)  # what it knows is passed on
    for fit in (new, again, later):
        assert fit.spec.prior.uncovered
        assert said in " ".join(str(fit).split())
        assert f"- {said[0].upper()}{said[1:]}, even where" in " ".join(fit.card().split())
    assert said not in " ".join(str(fits[0]).split())


@pytest.mark.parametrize("as_file", [False, True])
def test_a_fit_of_another_response_or_loss_is_no_prior(tmp_path, as_file) -> None:
    def given(fit):
        fit.save(tmp_path / "old.json", overwrite=True)
        return tmp_path / "old.json" if as_file else fit

    asked = {"bounds": BOUNDS, "do_scale": False}
    opposite = given(dplr("y == 0 ~ x", FRAME, 5.0, **asked))
    with pytest.raises(ArgumentError, match=r"fit is y == 0: True .*; prior takes a fit of"):
        dplr("y ~ x", FRAME, 1.0, prior=opposite, **asked)
    declared = {**asked, "levels": {"g": ["b", "a", "c"]}}
    reordered = given(dplr("g ~ x", FRAME, 5.0, **declared))
    with pytest.raises(ArgumentError, match="same response"):
        dplr("g ~ x", FRAME, 1.0, prior=reordered, **asked)
    dplr("g ~ x", FRAME, 1.0, prior=reordered, **declared)
    margin = given(dpsvm("y ~ x", FRAME, 5.0, h=0.3, **asked))
    for fitter in (dplr, dpsvm):
        with pytest.raises(ArgumentError, match="by the same loss"):
            fitter("y ~ x", FRAME, 1.0, prior=margin, **asked)
    dpsvm("y ~ x", FRAME, 1.0, h=0.3, prior=margin, **asked)
    with pytest.raises(ArgumentError, match=r"\(.*0\.3.*\).* \(.*0\.5.*\).*same loss"):
        dpsvm("y ~ x", FRAME, 1.0, prior=margin, **asked)
    plain = given(dpsvm("y ~ x", FRAME, 0, **asked))  # by huber, as the published programs
    said = "loss='softplus', h=0.5 in the earlier call, or loss='huber', h=0.5 in this one"
    with pytest.warns(PrivacyWarning), pytest.raises(ArgumentError, match=said):
        dpsvm("y ~ x", FRAME, 1.0, prior=plain, **asked)
    with pytest.warns(PrivacyWarning):
        dpsvm("y ~ x", FRAME, 1.0, prior=plain, loss="huber", **asked)
    same = given(dpsvm("y ~ x", FRAME, 0, loss="softplus", **asked))
    with pytest.warns(PrivacyWarning):
        dpsvm("y ~ x", FRAME, 1.0, prior=same, **asked)


def test_the_command_line_takes_means_or_a_file(tmp_path, capsys) -> None:
    FRAME.drop(columns="g").to_csv(tmp_path / "data.csv", index=False)
    data, model = str(tmp_path / "data.csv"), str(tmp_path / "model.json")
    bounds = ["--bounds", "x=-1:1", "--bounds", "u=0:3", "--bounds", "y=0:1"]
    means = ["--prior", "x=0.5", "--prior", "(Intercept)=-3"]
    assert main(["fit", data, "y ~ x + u", *bounds, *means, "--out", model]) == 0
    assert "draws to x = 0.5, (Intercept) = -3" in " ".join(capsys.readouterr().out.split())
    assert main(["fit", data, "y ~ x", *bounds, "--prior", model]) == 0
    assert "of an earlier fit" in " ".join(capsys.readouterr().out.split())
    assert main(["fit", data, "y ~ x", *bounds, "--prior", model, "--prior", "x=1"]) != 0
    assert "one FILE" in " ".join(capsys.readouterr().err.split())


@pytest.mark.quick
@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ({"age": 1.0}, "no coefficient 'age'; it has '(Intercept)', 'x', 'u'"),
        ({"X": 1.0}, "did you mean 'x'?"),
        ({"x": np.nan}, "a finite number"),
        ({"x": (0.03, "wide")}, "a standard deviation above 0"),
        ({"x": "0.03"}, "a finite number"),
        ({"x": 1e4}, "linear predictors of up to"),
        ({}, "numbers by names of coefficients"),
        (3.0, "an earlier fit"),
        ("nofile.json", "there is no file 'nofile.json'"),
    ],
)
def test_refusals(prior, words) -> None:
    with pytest.raises(ArgumentError) as caught:
        dplr("y ~ x + u", FRAME, 1.0, bounds=BOUNDS, prior=prior)
    assert words in str(caught.value)


def test_what_has_no_place_for_a_prior_says_so() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ArgumentError, match="coefficients with names"):
        dplr(
            FRAME["y"], sparse.csr_array(np.eye(N)[:, :4]), prior={"X1": 1.0}, levels={"y": [0, 1]}
        )
    with pytest.raises(ArgumentError, match="rp_dim"):
        dplr("y ~ x + u", FRAME, 1.0, rp_dim=1, prior={"x": 1.0}, levels={"y": [0, 1]})
    fit = dplr("y ~ x", FRAME, 4.0, bounds=BOUNDS, spend="inference", prior={"x": 1.0})
    with pytest.raises(ArgumentError, match="prior"):
        fit.conf_int(method="bootstrap", covariates="uniform")


# --- bases ----------------------------------------------------------------------------------
