"""Every plot shows names as they are, on light and dark grounds and in little room."""

import io
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from privatelr import dplr, dpmultinom, plan, plot_coefficients
from privatelr.audit.audit_table import Audit, Row
from privatelr.plot_style import literal
from privatelr.privacy import PureDP
from privatelr.privacy.accounting import Ledger
from privatelr.results.pages import term_plot

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
matplotlib.use("agg")
from matplotlib import mathtext, pyplot  # noqa: E402

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
def fitted(spend=None, formula="y ~ `{}` * `g $`", **options):
    public = {**PUBLIC, "levels": {**PUBLIC["levels"], "y": ["no $", POSITIVE]}}
    spend = dict(spend) if isinstance(spend, tuple) else spend
    return dplr(formula.format(COST), frame(), 8.0, spend=spend, **public, **options)


@cache
def bought():
    return fitted((("coefficients", 0.4), ("inference", 0.3), ("roc", 0.3)))


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
    "term": (lambda **o: bought().plot_term(COST, **o), (COST, FIRST, SECOND)),
    "term of classes": (lambda **o: several().plot_term(COST, **o), (COST, *CLASSES)),
    "strata": (
        lambda **o: fitted(formula="y ~ `{}`", by="g $").plot_term(COST, **o),
        (COST, f"g $ = {FIRST}", SECOND),
    ),
    "curve": (lambda **o: bought().roc.plot(**o), ()),
    "calibration": (lambda **o: bought().roc.plot_calibration(**o), (POSITIVE,)),
    "plan": (lambda **o: outlook().plot(**o), (COST,)),
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


def test_names_are_shown_beside_axes_that_share_them():
    """Where axes are shared, others write the labels that a plot has set."""
    figure, (left, right) = pyplot.subplots(1, 2, sharey=True)
    ledger().plot(ax=right)
    assert COST in words_in(figure)
    assert left.get_yticklabels()


def test_a_legend_of_ones_own_shows_names_as_they_are():
    axes = bought().plot_term(COST)
    axes.legend()
    assert FIRST in words_in(axes.figure)


@pytest.mark.parametrize("text", ["$", "$$", r"\$", r"\$x$", r"a\\$b_$", "$x_1$ & 50%"])
def test_a_text_with_dollars_is_shown_as_it_is(text):
    for parses in (True, False):
        with matplotlib.rc_context({"text.parse_math": parses}):
            figure = pyplot.figure()
            figure.text(0.5, 0.5, literal(text))
            assert text in words_in(figure)


def test_a_name_that_is_not_escaped_is_found(monkeypatch):
    monkeypatch.setattr(term_plot, "literal", str)
    with pytest.raises(ValueError, match="Double subscript"):
        check_names("term", monkeypatch)
