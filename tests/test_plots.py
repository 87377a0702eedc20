"""Every plot shows names as they are, on light and dark grounds and in little room."""

import io
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from colours import contrast

from privatelr import dplr, dpmultinom, plan, plot_coefficients
from privatelr.audit.audit_table import Audit, Row
from privatelr.errors import ArgumentError
from privatelr.privacy import PureDP
from privatelr.privacy.accounting import Ledger

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
matplotlib.use("agg")
from matplotlib import mathtext, pyplot  # noqa: E402
from matplotlib.colors import to_rgb, to_rgba  # noqa: E402

COST, FIRST, SECOND = "cost $ (a_b^c_d$)", "$x_1$ & 50%", "_$^$"
POSITIVE, CLASSES = r"yes \$^$", (FIRST, SECOND, "c$$^")
PUBLIC = {"bounds": {COST: (0, 1)}, "levels": {"g $": [FIRST, SECOND]}}


@cache
def frame():
    rng, n = np.random.default_rng(1), 600
    made = pd.DataFrame({COST: rng.uniform(0, 1, n), "g $": rng.choice([FIRST, SECOND], n)})
    made["y"] = np.where(rng.uniform(size=n) < made[COST], POSITIVE, "no $")
    return made.assign(k=rng.choice(CLASSES, n))


@cache
def fitted(spend=None, formula="y ~ `{}` * `g $`", eps=8.0, **options):
    public = {**PUBLIC, "levels": {**PUBLIC["levels"], "y": ["no $", POSITIVE]}}
    spend = dict(spend) if isinstance(spend, tuple) else spend
    return dplr(formula.format(COST), frame(), eps, spend=spend, **public, **options)


@cache
def bought():
    return fitted((("coefficients", 0.4), ("inference", 0.3), ("roc", 0.3)))


@cache
def exact():
    """Its band takes no simulation."""
    return fitted("inference", eps=0, lambda_=1e-3)


@cache
def several():
    public = {**PUBLIC, "levels": {"k": list(CLASSES)}}
    return dpmultinom(f"k ~ `{COST}`", frame(), 8.0, **public)


@cache
def outlook():
    return plan(f"y ~ `{COST}`", 20_000, 1.0, bounds=PUBLIC["bounds"])


@cache
def ledger():
    made = Ledger(3.0)
    made.charge(PureDP(0.5), label=COST)
    made.part(SECOND).charge(PureDP(0.5), label=FIRST)
    return made


@cache
def audit():
    row = Row("objective", FIRST, COST, 1.0, 0.99, 1.0, "somewhere", 0.9, 0.5)
    return Audit((row, Row("output", "x", "epsilon = 1", 1.0, 2.0, 2.0, "there", 0.9, 0.5)))


LABELS = {FIRST: fitted, SECOND: bought}
PLOTS = {
    "coefficients": (lambda **o: bought().plot(**o), (COST, SECOND)),
    "estimates": (lambda **o: fitted().plot(**o), (COST, SECOND)),
    "odds ratios": (lambda **o: bought().plot(exponentiate=True, **o), (COST, SECOND)),
    "fits": (
        lambda **o: plot_coefficients({k: fit() for k, fit in LABELS.items()}, **o),
        (COST, *LABELS),
    ),
    "term": (lambda **o: exact().plot_term(COST, **o), (COST, FIRST, SECOND)),
    "term of classes": (lambda **o: several().plot_term(COST, **o), (COST, *CLASSES)),
    "strata": (
        lambda **o: fitted(formula="y ~ `{}`", by="g $").plot_term(COST, **o),
        (COST, f"g $ = {FIRST}", SECOND),
    ),
    "curve": (lambda **o: bought().roc.plot(**o), ()),
    "calibration": (lambda **o: bought().roc.plot_calibration(**o), (POSITIVE,)),
    "plan": (lambda **o: outlook().plot(n=[20_000], eps=[0.01, 0.3, 10.0], **o), (COST,)),
    "ledger": (lambda **o: ledger().plot(**o), (COST, FIRST, SECOND)),
    "audit": (lambda **o: audit().draw(**o), (COST, FIRST)),
}
"""Each plot, and names that it shows."""
EVERY = pytest.mark.parametrize("name", PLOTS)


@pytest.fixture(autouse=True)
def _own_style():
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        yield
    pyplot.close("all")


def words_in(figure):
    """Return all words of a figure as it is saved, in one line."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="svg")
    figure.savefig(io.BytesIO(), format="png")
    return " ".join(" ".join(ElementTree.fromstring(drawn.getvalue()).itertext()).split())


# -- names -----------------------------------------------------------------------------------------


def check_names(name, monkeypatch):
    parse, typeset = mathtext.MathTextParser.parse, []

    def spy(self, s, *rest, **options):
        typeset.append(s)
        return parse(self, s, *rest, **options)

    monkeypatch.setattr(mathtext.MathTextParser, "parse", spy)
    draw, names = PLOTS[name]
    words = words_in(draw().figure)
    assert [one for one in names if one not in words] == []
    assert typeset == []


@EVERY
def test_names_are_shown_as_they_are(name, monkeypatch):
    check_names(name, monkeypatch)


# -- grounds ---------------------------------------------------------------------------------------

STRONG, VISIBLE, PALEST = 4.5, 3.0, 1.5
"""Contrast of words, of lines on dark grounds, and of the palest line on a light one; by WCAG 2."""


def faint_in(axes):
    """What can hardly be seen on the ground of its axes, with its contrast."""
    ground = to_rgb(axes.get_facecolor())
    least = PALEST if sum(ground) > 1.5 else VISIBLE

    def clear(colour, least=least):
        *shown, opacity = to_rgba(colour)
        return contrast(np.array(shown), np.array(ground)) >= least or opacity < 1

    legend = axes.get_legend()
    lines = [*axes.lines, *(legend.get_lines() if legend else [])]
    marks = [one.get_markeredgecolor() for one in lines if one.get_marker() not in ("None", "")]
    strokes = [one.get_color() for one in lines if one.get_linestyle() != "None"]
    bars = [one.get_facecolor() for one in axes.patches]
    areas = [colour for one in axes.collections for colour in one.get_facecolor()]
    words = [one.get_color() for one in legend.get_texts()] if legend else []
    assert legend is None or to_rgba(legend.get_frame().get_facecolor()) == (*ground, 1.0)
    found = [one for one in (*marks, *strokes, *bars, *areas) if not clear(one)]
    return [*found, *(one for one in words if not clear(one, STRONG))]


def dark_axes():
    axes = pyplot.figure(facecolor="#202020").subplots()
    axes.set_facecolor("#111111")
    return axes


@EVERY
def test_all_is_seen_on_any_ground_and_inside_of_an_own_figure(name):
    draw, _ = PLOTS[name]
    own = draw()
    assert faint_in(own) == []
    assert outside(own) == []
    assert faint_in(draw(ax=dark_axes())) == []
    with pyplot.style.context("dark_background"):
        assert faint_in(draw()) == []


# -- room ------------------------------------------------------------------------------------------


def outside(axes):
    """The legend, a title or a label that reaches beyond the edges of the figure."""
    axes.figure.canvas.draw()
    (right, top), parts = axes.figure.bbox.size, [axes.get_legend(), axes.title]
    boxes = [one.get_window_extent() for one in (*parts, axes.xaxis.label, axes.yaxis.label) if one]
    shown = [box for box in boxes if box.width > 0]
    return [box for box in shown if min(box.p0) < 0 or box.x1 > right or box.y1 > top]


# -- axes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "projection"), [*((name, "polar") for name in PLOTS), ("term", "3d")]
)
def test_axes_without_an_x_and_a_y_are_refused(name, projection):
    axes = pyplot.figure().add_subplot(projection=projection)
    with pytest.raises(ArgumentError, match=f"ax of type {type(axes).__name__}: ax takes None"):
        PLOTS[name][0](ax=axes)
