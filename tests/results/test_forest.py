"""The forest plot: what is drawn where, and what it refuses."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
from frames_for_laws import fit_clinic
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from repeated_noise import drawn, trial

import privatelr
from privatelr import ArgumentError, GuaranteeError, MissingDependencyError, dplr, dpsvm
from privatelr import plot_coefficients as plot

mpl.use("Agg")

FRAME = trial()
FIT = drawn(fit_clinic, FRAME, eps=2.0, spend="inference")
OUTPUT = drawn(fit_clinic, FRAME, eps=2.0, spend="inference", op=False)
SMALL = dplr("y ~ age", FRAME, eps=0, spend="inference", bounds={"age": (18, 90)})


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
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_whole_bar_is_the_interval_and_the_inner_one_sampling(axes):
    found = plot(FIT, ax=axes, scale="coefficient", level=0.9)
    assert found is axes
    tidy = FIT.tidy(conf_int=True, conf_level=0.9)[1:]
    outer, inner = bars(axes)[:3], bars(axes)[3:]
    np.testing.assert_allclose([end[0] for end in outer], tidy["conf_low"])
    np.testing.assert_allclose([end[1] for end in outer], tidy["conf_high"])
    share = tidy["sampling_sd"] / tidy["std_error"]
    half = (tidy["conf_high"] - tidy["conf_low"]) / 2 * share
    np.testing.assert_allclose([end[0] for end in inner], tidy["estimate"] - half)
    np.testing.assert_allclose([end[1] for end in inner], tidy["estimate"] + half)
    # two tones of one colour
    assert outer[0][2][:3] == inner[0][2][:3]
    assert outer[0][2][3] < inner[0][2][3] == 1
    assert [t.get_text() for t in axes.get_yticklabels()] == ["age", "dose", "smoker[T.yes]"]
    assert labels(axes) == ["sampling error", "added by the noise"]
    assert axes.get_xlabel() == "coefficient, 90% posterior intervals"


def test_unlike_intervals_count_in_standard_errors(axes):
    plot(FIT, ax=axes)
    assert axes.get_xlabel() == "coefficient / its standard error, 95% posterior intervals"
    tidy = FIT.tidy(conf_int=True)[1:]
    np.testing.assert_allclose(
        [bar[0] for bar in bars(axes)[:3]], tidy["conf_low"] / tidy["std_error"]
    )


def test_several_fits_side_by_side(axes):
    plot({"objective": FIT, "output": OUTPUT, "small": SMALL}, ax=axes, scale="coefficient")
    assert labels(axes)[2:] == ["objective", "output", "small"]
    assert len({bar[2] for bar in bars(axes)}) == 6
    # a fit without a coefficient leaves its row empty
    assert np.isnan([bar[0] for bar in bars(axes)]).sum() == 4
    told = {text for fits in ((FIT, OUTPUT), (FIT, SMALL)) for text in labels(plot(*fits, ax=axes))}
    assert {"1: epsilon = 2 (pure)", "2: epsilon = 2 (pure)", "epsilon = 2 (pure)"} <= told
    assert len(labels(plot([FIT, OUTPUT], ax=axes))) == 4


def test_odds_ratios_and_the_intercept(axes):
    plot(FIT, ax=axes, exponentiate=True, intercept=True)
    assert axes.get_xscale() == "log"
    tidy = FIT.tidy(conf_int=True, exponentiate=True)
    np.testing.assert_allclose([bar[1] for bar in bars(axes)[:4]], tidy["conf_high"])
    assert axes.get_xlabel().startswith("odds ratio, 95% ")


def test_without_noise_there_is_one_tone(axes):
    plot(SMALL, ax=axes)
    assert labels(axes) == ["sampling error"]


def test_an_own_figure():
    found = FIT.plot(mode="posterior")
    assert found.figure is not None
    assert found.get_xlabel().endswith("posterior intervals")
    mpl.pyplot.close(found.figure)
    only = dplr("y ~ 1", FRAME, eps=2.0, spend="inference").plot()
    assert [t.get_text() for t in only.get_yticklabels()] == ["(Intercept)"]
    mpl.pyplot.close(only.figure)


def test_it_is_drawn(tmp_path, axes):
    plot(FIT, OUTPUT, ax=axes)
    axes.figure.savefig(tmp_path / "forest.png")
    pixels = mpl.image.imread(tmp_path / "forest.png")
    blue = np.array(to_rgba("#2f6fab"))
    assert (np.abs(pixels - blue).max(axis=2) < 0.02).sum() > 50


def test_what_it_refuses(monkeypatch):
    with pytest.raises(GuaranteeError, match="fit with spend='inference'"):
        plot(fit_clinic(FRAME))
    with pytest.raises(ArgumentError, match="3 is no fit"):
        plot(3)
    with pytest.raises(ArgumentError, match="there is no fit"):
        plot([])
    with pytest.raises(ArgumentError, match="scale='user': scale takes 'auto'"):
        plot(FIT, scale="user")
    with pytest.raises(ArgumentError, match="not logarithms of odds"):
        plot(fit_clinic(FRAME, model=dpsvm, spend="inference"), exponentiate=True)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r"install it, or privatelr\[plots\]"):
        plot(FIT)


def test_the_package_does_not_load_matplotlib():
    assert privatelr.plot_coefficients is plot
    source = sys.modules["privatelr.results.forest"].__dict__
    assert "matplotlib" not in source
