"""The forest plot: what is drawn where, and what it refuses."""

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from frames_for_laws import fit_clinic
from matplotlib.figure import Figure
from repeated_noise import drawn, trial
from scipy import sparse

from privatelr import ArgumentError, GuaranteeError, MissingDependencyError, dplr, dpsvm
from privatelr import plot_coefficients as plot
from privatelr.results.odds_ratios import units_of_bounds

mpl.use("Agg")

FRAME = trial()
FIT = drawn(fit_clinic, FRAME, eps=2.0, spend="inference")
OUTPUT = drawn(fit_clinic, FRAME, eps=2.0, spend="inference", op=False)
SMALL = dplr("y ~ age", FRAME, eps=0, spend="inference", bounds={"age": (18, 90), "y": (0, 1)})


@pytest.fixture
def axes():
    figure = Figure()
    return figure.subplots()


def bars(axes):
    """Left and right ends of each bar, with its colour."""
    return [
        (bar.get_x(), bar.get_x() + bar.get_width(), bar.get_facecolor())
        for container in axes.containers
        for bar in container
    ]


def labels(axes):
    return [" ".join(text.get_text().split()) for text in axes.get_legend().get_texts()]


def test_the_whole_bar_is_the_interval_and_its_parts_are_those_of_the_error(axes):
    found = plot(FIT, ax=axes, scale="coefficient", level=0.9)
    assert found is axes
    tidy = FIT.tidy(conf_int=True, conf_level=0.9)[1:]
    drawn_bars = bars(axes)
    outer, middle, inner = drawn_bars[:3], drawn_bars[3:6], drawn_bars[6:]
    assert [end[:2] for end in outer] == [
        pytest.approx(ends) for ends in tidy[["conf_low", "conf_high"]].to_numpy().tolist()
    ]
    for part, size in (
        (inner, tidy["sampling_sd"]),
        (middle, np.hypot(tidy["sampling_sd"], tidy["privacy_sd"])),
    ):
        share = size / tidy["std_error"]
        low = tidy["estimate"] - share * (tidy["estimate"] - tidy["conf_low"])
        high = tidy["estimate"] + share * (tidy["conf_high"] - tidy["estimate"])
        np.testing.assert_allclose([end[0] for end in part], low)
        np.testing.assert_allclose([end[1] for end in part], high)
    # three tones of one colour, of which each covers the one below
    colours = [part[0][2] for part in (outer, middle, inner)]
    assert len({colour[:3] for colour in colours}) == 1
    assert colours[0][3] < colours[1][3] < colours[2][3] == 1
    assert [t.get_text() for t in axes.get_yticklabels()] == ["age", "dose", "smoker[T.yes]"]
    assert labels(axes) == ["sampling error", "added by the noise", "not known"]
    assert axes.get_xlabel() == "coefficient, 90% confidence intervals, posterior mode"


def test_the_tones_of_the_legend_are_those_of_the_bars(axes):
    plot(FIT, ax=axes)
    told = [patch.get_facecolor()[3] for patch in axes.get_legend().get_patches()]
    first = [container[0].get_facecolor()[3] for container in axes.containers]
    seen, below = [], 0.0
    for opacity in first:  # each is drawn on those before it
        below = 1 - (1 - below) * (1 - opacity)
        seen.append(below)
    assert told == pytest.approx(seen[::-1])


def test_what_was_not_counted_has_no_tone(axes):
    plot(FIT, ax=axes, mode="plug-in")
    assert labels(axes) == ["sampling error", "added by the noise"]


def test_the_axis_names_intervals_as_the_page_does(axes):
    named = {"mode": "conservative", "target": "penalised"}
    plot({"with noise": FIT, "widest": OUTPUT}, ax=axes, **named)
    assert axes.get_xlabel() == "coefficient, 95% confidence intervals, conservative mode"
    assert "posterior mode, " in " ".join(str(FIT).split())
    plot(SMALL, ax=axes)  # nothing to average over, so that the page names no mode either
    assert axes.get_xlabel() == "coefficient, 95% confidence intervals"
    assert " mode" not in str(SMALL)


def test_rows_are_of_powers_of_ten_of_units_where_asked_for(axes):
    plot(FIT, ax=axes, scale="auto")
    assert axes.get_xlabel() == "coefficient, 95% confidence intervals, posterior mode"
    names = [t.get_text() for t in axes.get_yticklabels()]
    assert names == ["age (per 10)", "dose", "smoker[T.yes]"]
    tidy = FIT.tidy(conf_int=True)[1:]
    times = np.array([10.0, 1.0, 1.0])
    np.testing.assert_allclose([bar[0] for bar in bars(axes)[:3]], tidy["conf_low"] * times)
    np.testing.assert_allclose([bar[1] for bar in bars(axes)[:3]], tidy["conf_high"] * times)
    plot(FIT, ax=axes, exponentiate=True, scale="auto")
    np.testing.assert_allclose(
        [bar[1] for bar in bars(axes)[9:12]], np.exp(tidy["conf_high"] * times)
    )


def test_several_fits_side_by_side(axes):
    plot({"objective": FIT, "output": OUTPUT, "small": SMALL}, ax=axes, scale="coefficient")
    assert labels(axes)[3:] == ["objective", "output", "small"]
    assert len({bar[2] for bar in bars(axes)}) == 9
    # a fit without a coefficient leaves its row empty
    assert np.isnan([bar[0] for bar in bars(axes)]).sum() == 6
    told = {text for fits in ((FIT, OUTPUT), (FIT, SMALL)) for text in labels(plot(*fits, ax=axes))}
    assert {"1: epsilon = 2 (pure)", "2: epsilon = 2 (pure)", "epsilon = 2 (pure)"} <= told
    assert len(labels(plot([FIT, OUTPUT], ax=axes))) == 5


def test_odds_ratios_and_the_intercept(axes):
    plot(FIT, ax=axes, exponentiate=True, intercept=True, scale="coefficient")
    assert axes.get_xscale() == "log"
    tidy = FIT.tidy(conf_int=True, exponentiate=True)
    np.testing.assert_allclose([bar[1] for bar in bars(axes)[:4]], tidy["conf_high"])
    assert axes.get_xlabel().startswith("odds ratio, 95% ")


def test_without_noise_there_is_one_tone(axes):
    plot(SMALL, ax=axes)
    assert labels(axes) == ["sampling error"]


# -- without standard errors -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "± one standard deviation of the noise, at most"),
        ({"op": False}, "± one standard deviation of the noise"),
        ({"model": dpsvm}, "± one standard deviation of the noise, at most"),
    ],
)
def test_estimates_are_drawn_with_the_limit_of_the_noise(axes, options, words):
    fit = fit_clinic(FRAME, **options)
    plot(fit, ax=axes, scale="coefficient")
    ends = bars(axes)
    np.testing.assert_allclose([bar[0] for bar in ends], (fit.coef - fit.privacy_sd_limit)[1:])
    np.testing.assert_allclose([bar[1] for bar in ends], (fit.coef + fit.privacy_sd_limit)[1:])
    (dots,) = [line for line in axes.lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(dots.get_xdata(), fit.coef[1:])
    assert labels(axes) == [words]
    assert axes.get_xlabel() == "coefficient, without confidence intervals"


def test_estimates_without_noise_are_dots(axes):
    plot(fit_clinic(FRAME, eps=0), ax=axes)
    assert axes.get_legend() is None


def test_estimates_stand_beside_intervals(axes):
    plot({"with": FIT, "without": fit_clinic(FRAME)}, ax=axes, exponentiate=True)
    assert labels(axes) == [
        "sampling error",
        "added by the noise",
        "not known",
        "± one standard deviation of the noise, at most",
        "with",
        "without",
    ]
    assert axes.get_xlabel() == "odds ratio, 95% confidence intervals, posterior mode"


def test_of_very_many_coefficients_the_clearest_are_drawn(axes):
    rng = np.random.default_rng(3)
    x = sparse.random_array((300, 150), density=0.2, rng=rng, format="csr")
    y = np.asarray(x[:, [7]].sum(axis=1) > 0).ravel().astype(int)
    fit = dplr(pd.Series(y, name="y"), x, eps=50.0, levels={"y": [0, 1]})
    plot(fit, ax=axes)
    names = [t.get_text() for t in axes.get_yticklabels()]
    assert len(names) == 40
    assert axes.get_xlabel() == "coefficient, without confidence intervals, the 40 largest of 150"
    assert any(name.startswith("X8") for name in names)


# -- the axis ------------------------------------------------------------------------------------


def test_the_axis_of_odds_ratios_shows_them(axes):
    plot(FIT, ax=axes, exponentiate=True)
    axes.figure.canvas.draw()
    shown = [text.get_text() for text in axes.get_xticklabels()]
    assert "1" in shown
    assert [float(text) for text in shown] == pytest.approx(list(axes.get_xticks()), rel=1e-5)
    assert list(axes.get_xticks(minor=True)) == []


@pytest.mark.parametrize(
    ("span", "times"),
    [(72.0, 10), (150.0, 10), (10.0, 1), (6.0, 1), (1.0, 0.1), (7300.0, 1000), (np.inf, 1)],
)
def test_units_are_powers_of_ten_of_which_the_declared_range_has_a_few(span, times):
    np.testing.assert_allclose(1 / units_of_bounds(np.array([span, np.nan])), [times, 1])
    assert np.isinf(span) or 3 < span / times < 32


def incomes(n=400, **options):
    """A fit whose bounds have ranges of 72, 9, 100,000 and one half, and a level."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"age": rng.uniform(18, 90, n), "grade": rng.uniform(1, 10, n)})
    frame["income"], frame["share"] = rng.uniform(0, 1e5, n), rng.uniform(0, 0.5, n)
    frame["y"], frame["sex"] = rng.integers(0, 2, n), rng.choice(["f", "m"], n)
    bounds = {"age": (18, 90), "grade": (1, 10), "income": (0, 1e5), "share": (0, 0.5)}
    public = {"bounds": bounds, "levels": {"sex": ["f", "m"], "y": [0, 1]}}
    return dplr("y ~ age + grade + income + share + sex", frame, **public, **options)


@pytest.mark.parametrize("options", [{"spend": "inference"}, {}, {"op": False}], ids=str)
def test_units_of_odds_ratios_follow_from_the_bounds_and_not_from_the_noise(axes, options):
    names = ["age", "grade", "income (per 10000)", "share (per 0.1)", "sex[T.m]"]
    for eps in (0.1, 1.0, 30.0, 30.0):
        fit = incomes(eps=eps, **options)
        plot(fit, ax=axes, exponentiate=True)
        assert [text.get_text() for text in axes.get_yticklabels()] == names
    plot(fit, ax=axes, exponentiate=True, scale="auto")
    assert [text.get_text() for text in axes.get_yticklabels()] == ["age (per 10)", *names[1:]]


def test_odds_ratios_are_those_that_the_page_prints(axes):
    plot(FIT, ax=axes, exponentiate=True)
    ends = FIT.tidy(conf_int=True, exponentiate=True)[1:][["conf_low", "conf_high"]]
    np.testing.assert_allclose([bar[:2] for bar in bars(axes)[:3]], ends)
    shown = [text.get_text() for text in axes.get_yticklabels()]
    assert all(f"\n{name} " in str(FIT.summary(exponentiate=True)) for name in shown)


def test_an_own_figure():
    found = FIT.plot(mode="posterior")
    assert found.figure is not None
    assert found.get_xlabel().endswith("95% confidence intervals, posterior mode")
    mpl.pyplot.close(found.figure)
    only = dplr("y ~ 1", FRAME, eps=2.0, spend="inference", levels={"y": [0, 1]}).plot()
    assert [t.get_text() for t in only.get_yticklabels()] == ["(Intercept)"]
    mpl.pyplot.close(only.figure)


def test_what_it_refuses(monkeypatch):
    for asked in ({"mode": "posterior"}, {"simultaneous": True}):
        with pytest.raises(GuaranteeError, match="fit with spend='inference'"):
            plot(fit_clinic(FRAME), **asked)
    with pytest.raises(ArgumentError, match="level=2"):
        plot(fit_clinic(FRAME), level=2)
    with pytest.raises(ArgumentError, match="3 is no fit"):
        plot(3)
    with pytest.raises(ArgumentError, match="there is no fit"):
        plot([])
    with pytest.raises(ArgumentError, match="scale='user': scale takes 'coefficient'"):
        plot(FIT, scale="user")
    with pytest.raises(ArgumentError, match="not logarithms of odds"):
        plot(fit_clinic(FRAME, model=dpsvm, spend="inference"), exponentiate=True)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r"install it, or privatelr\[plots\]"):
        plot(FIT)
