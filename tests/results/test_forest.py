"""The forest plot: what is drawn where, and what it refuses."""

import matplotlib as mpl
import numpy as np
import pytest
from frames_for_laws import fit_clinic
from matplotlib.figure import Figure
from repeated_noise import drawn, trial

from privatelr import dplr, dpsvm
from privatelr import plot_coefficients as plot

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


def test_several_fits_side_by_side(axes):
    plot({"objective": FIT, "output": OUTPUT, "small": SMALL}, ax=axes, scale="coefficient")
    assert labels(axes)[3:] == ["objective", "output", "small"]
    assert len({bar[2] for bar in bars(axes)}) == 9
    # a fit without a coefficient leaves its row empty
    assert np.isnan([bar[0] for bar in bars(axes)]).sum() == 6
    assert {"(1)", "(2)"} <= {*labels(plot(FIT, OUTPUT, ax=axes))}
    assert len(labels(plot([FIT, OUTPUT], ax=axes))) == 5


def test_odds_ratios_and_the_intercept(axes):
    plot(FIT, ax=axes, exponentiate=True, intercept=True, scale="coefficient")
    assert axes.get_xscale() == "log"
    tidy = FIT.tidy(conf_int=True, exponentiate=True)
    np.testing.assert_allclose([bar[1] for bar in bars(axes)[:4]], tidy["conf_high"])
    assert axes.get_xlabel().startswith("odds ratio, 95% ")


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


# -- the axis ------------------------------------------------------------------------------------
