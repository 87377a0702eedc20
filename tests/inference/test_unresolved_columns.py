"""The interval of a column that may be nearly constant allows for that."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from releases_for_inference import noisy_evidence

from privatelr import ApproxDP, dplr
from privatelr.inference import Matrices, evidence_of, posterior, unresolved_columns
from privatelr.inference.unresolved_columns import explained, spread_again

RUNS = 8
EACH_NOISE = pytest.mark.parametrize("laplace", [False, True], ids=["normal", "Laplace"])


def draws(evidence, *, runs=RUNS):
    """Independent sets of draws from the posterior under a power of the determinant alone."""
    return [posterior.posterior(evidence, np.random.default_rng(seed)) for seed in range(runs)]


def views(matrices, evidence):
    """Logarithms of each column's own curvature, of entries beside it, and sizes ``(k, v)``."""
    bare = matrices.curvature - evidence.floor * np.eye(len(evidence.w))
    first = evidence.first
    columns = range(first, bare.shape[1])
    own = [(bare[:, c] - explained(bare, c, first))[:, c] for c in columns]
    inverse = np.linalg.inv(bare)
    corners = [np.log(inverse[:, 0, 0]), np.log(inverse[:, -1, -1])]
    traces = np.trace(bare, axis1=1, axis2=2), np.trace(matrices.scores, axis1=1, axis2=2)
    return np.stack([*map(np.log, own), *corners, bare[:, 0, -1], *traces], axis=1)


def agree(found, expected, weight=None):
    """Shares below quantiles of two lists of sets of draws, by the spread among sets."""
    weight = weight or [np.ones(len(v)) for v in expected]
    every = np.concatenate(expected)
    for limit in np.quantile(every, [0.1, 0.3, 0.5, 0.7, 0.9], axis=0):
        ours = np.array([(v <= limit).mean(axis=0) for v in found])
        theirs = np.array(
            [
                np.average(v <= limit, axis=0, weights=w)
                for v, w in zip(expected, weight, strict=True)
            ]
        )
        error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / len(ours))
        # with 14 degrees of freedom, one in ten thousand of some hundreds is beyond six
        assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= 6 * error + 1e-3).all()


def evidence_with(resolved, first, *, laplace, d=3, ratio=2.0):
    base = noisy_evidence(d, ratio, laplace=laplace)
    return replace(base, determinant=1.0, resolved=np.asarray(resolved), first=first)


def again(evidence, before):
    return [spread_again(evidence, m, np.random.default_rng(100 + i)) for i, m in enumerate(before)]


def check_resolved_columns_keep_their_law(first, *, laplace):
    resolved = np.r_[np.ones(first), np.full(3 - first, np.nextafter(1.0, 0.0))]
    evidence = evidence_with(resolved, first, laplace=laplace)
    before = draws(evidence)
    after = again(evidence, before)
    assert all((a.curvature != b.curvature).any() for a, b in zip(after, before, strict=True))
    agree([views(m, evidence) for m in after], [views(m, evidence) for m in before])


@EACH_NOISE
@pytest.mark.parametrize("first", [0, 1])
def test_columns_that_are_just_resolved_keep_their_law(first, laplace):
    check_resolved_columns_keep_their_law(first, laplace=laplace)


def check_power(share, *, laplace):
    """With an intercept and one covariate, own curvatures are weighted by one known power."""
    evidence = evidence_with([1.0, share], 1, laplace=laplace, d=2)
    before = draws(evidence, runs=2 * RUNS)
    expected = [views(m, evidence) for m in before]
    weight = [np.exp((share - 1) * v[:, 0]) for v in expected]
    agree([views(m, evidence) for m in again(evidence, before)], expected, weight)


@EACH_NOISE
@pytest.mark.parametrize("share", [0.5, 0.75])
def test_prior_is_the_power_that_is_said(share, laplace):
    check_power(share, laplace=laplace)


def without_intercept(curvature, column, first):
    return np.zeros_like(curvature[:, column])


def of_wrong_sign(away, own, column, ratio, right=unresolved_columns._square):
    return right(-away, own, column, ratio)


def counted_once(away, own, column, ratio, right=unresolved_columns._square):
    return right(away, own, column, ratio) / 2


@pytest.mark.parametrize(
    ("name", "bug"),
    [("explained", without_intercept), ("_square", of_wrong_sign), ("_square", counted_once)],
)
def test_planted_bug_is_caught(name, bug, monkeypatch):
    monkeypatch.setattr(unresolved_columns, name, bug)
    with pytest.raises(AssertionError):
        check_resolved_columns_keep_their_law(1, laplace=False)


def test_planted_power_is_caught(monkeypatch):
    wrong = unresolved_columns._draw_from
    monkeypatch.setattr(
        unresolved_columns,
        "_draw_from",
        lambda logs, density, rng: wrong(logs, density - 0.5 * logs, rng),
    )
    with pytest.raises(AssertionError):
        check_power(0.75, laplace=True)


@EACH_NOISE
def test_draws_stay_in_the_cone(laplace):
    for seed in range(3):
        evidence = evidence_with([1.0, 0.0, 0.2, 0.0], 1, laplace=laplace, d=4, ratio=8.0)
        drawn = posterior.posterior(evidence, np.random.default_rng(seed))
        found = spread_again(evidence, drawn, np.random.default_rng(seed))
        bare = found.curvature - evidence.floor * np.eye(4)
        assert np.linalg.eigvalsh(bare).min() > -1e-12 * evidence.largest_trace
        assert np.trace(bare, axis1=1, axis2=2).max() <= evidence.largest_trace * 1.3
        np.testing.assert_array_equal(found.scores, drawn.scores)
        np.testing.assert_allclose(bare, np.swapaxes(bare, 1, 2), rtol=0, atol=1e-12)


def thin_study(sd, n=3_000):
    """A study whose noise is so large that a column of usual spread could be hidden, too."""
    rng = np.random.default_rng(5)
    x, z = rng.normal(45, 12, (n, 4)), rng.normal(5, sd, n)
    y = rng.random(n) < 1 / (1 + np.exp(-(x[:, 0] - 45) / 12))
    frame = pd.DataFrame(x, columns=["x1", "x2", "x3", "x4"]).assign(y=y, z=z)
    bounds = {**dict.fromkeys(["x1", "x2", "x3", "x4"], (0, 100)), "z": (0, 10)}
    return dplr("y ~ x1 + x2 + x3 + x4 + z", frame, 1.0, bounds=bounds, spend="inference", seed=1)


@pytest.mark.filterwarnings("ignore::privatelr.errors.PrivacyWarning")
def test_a_thin_column_is_unresolved_and_said_to_be():
    thin, wide = thin_study(0.02), thin_study(2.0, n=10_000)
    assert evidence_of(thin.release).resolved[-1] < 0.4
    assert (evidence_of(wide.release).resolved == 1).all()
    text = " ".join(str(thin).split())
    assert "The noise hides how much z varies from record to record. It may be nearly" in text
    assert "Other columns that go together with what is hidden may take over its effect" in text
    assert "varies" not in str(wide)


@pytest.mark.filterwarnings("ignore::privatelr.errors.PrivacyWarning")
def test_intervals_of_a_thin_column_are_much_wider_than_those_of_others(monkeypatch):
    """Without the second draw they would be as narrow as the prior of resolved columns says."""

    def width(fit):
        table = fit.conf_int()
        return (table.iloc[:, 1] - table.iloc[:, 0]).to_numpy()

    ours = width(thin_study(0.02))
    monkeypatch.setattr(
        "privatelr.inference.noisy_moments.spread_again", lambda evidence, found, rng: found
    )
    before = width(thin_study(0.02))
    ratio = ours / before
    assert ratio[-1] > 1.4 * ratio[1:5].max()
    assert (ratio[1:5] < 1.2).all()


def test_no_scale_means_nothing_is_drawn_again():
    evidence = noisy_evidence(3, 2.0, laplace=True)
    drawn = posterior.posterior(evidence, np.random.default_rng(0))
    found = spread_again(evidence, drawn, np.random.default_rng(0))
    assert isinstance(found, Matrices)
    np.testing.assert_allclose(found.curvature, drawn.curvature, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::privatelr.errors.PrivacyWarning")
def test_a_test_of_one_equation_is_that_of_the_table():
    """Also where errors have long tails, so that the table has no z."""
    fit = thin_study(0.02)
    row = fit.tidy(target="unpenalised").set_index("term").loc["z"]
    found = fit.wald_test("z = 0", target="unpenalised")
    assert np.isnan(row["statistic"])
    assert (found.statistic > found.critical) == (found.p_value < 0.05)
    assert found.p_value == pytest.approx(float(row["p_value"]), rel=1e-9)


@pytest.mark.filterwarnings("ignore::privatelr.errors.PrivacyWarning")
def test_a_hidden_number_leaves_no_tests_unless_they_are_asked_for():
    """Others may take over its effect, by any number of standard errors."""
    fit, shown = thin_study(0.02), thin_study(2.0, n=10_000)
    assert fit.pvalues.isna().all()
    assert shown.pvalues.notna().all()
    head = next(line for line in str(fit).splitlines() if "Estimate" in line)
    assert head.split() == ["Estimate", "Std.", "Error", "[0.025", "0.975]"]
    text = " ".join(str(fit).split())
    assert "not about an effect that is adjusted for z, and there are no tests." in text
    assert "no p-value where the noise hides a column" in str(fit.wald_test("x1 = 0"))
    assert fit.anova()["p_value"].isna().all()
    named = fit.summary(target="unpenalised")
    assert {"p-value", "Pr(>|z|)"} & {*named.coefficients.headers}
    assert "adjusted for z. Narrower" in " ".join(str(named).split())


@pytest.mark.filterwarnings("ignore::privatelr.errors.PrivacyWarning")
def test_a_hidden_level_leaves_tests():
    """Few records have it, so it moves others by little."""
    rng, n = np.random.default_rng(5), 10_000
    frame = pd.DataFrame(rng.normal(45, 12, (n, 3)), columns=["x1", "x2", "x3"])
    y = rng.random(n) < 1 / (1 + np.exp(-(frame["x1"] - 45) / 12))
    frame = frame.assign(y=y, f=rng.choice(list("abcd"), n, p=[0.7, 0.2, 0.0995, 0.0005]))
    bounds, levels = dict.fromkeys(["x1", "x2", "x3"], (0, 100)), {"f": list("abcd")}
    promise = ApproxDP(1.0, 1e-6)
    fit = dplr("y ~ .", frame, promise, bounds=bounds, levels=levels, spend="inference", seed=1)
    assert evidence_of(fit.release).resolved[-1] < 0.4
    assert fit.pvalues.notna().all()
    text = " ".join(str(fit).split())
    assert "The noise hides how much f[T.d] varies from record to record." in text
    assert "there are no tests" not in text


@EACH_NOISE
def test_a_draw_on_the_edge_of_the_cone_is_moved_off_it(laplace):
    """There a column has no curvature of its own, by which a ratio could be taken."""
    evidence = evidence_with([1.0, 1.0, 0.2], 1, laplace=laplace)
    matrices = posterior.posterior(evidence, np.random.default_rng(0))
    flat = matrices.curvature.copy()
    flat[:, 2], flat[:, :, 2] = evidence.penalty[2], evidence.penalty[2]
    found = spread_again(evidence, Matrices(flat, matrices.scores), np.random.default_rng(1))
    assert np.isfinite(found.curvature).all()
    assert (found.curvature[:, 2, 2] > evidence.penalty[2, 2]).all()
