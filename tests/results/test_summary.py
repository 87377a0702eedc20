"""The printed page: its words, its width, and where the rule stands."""

import re
import warnings
from html.parser import HTMLParser

import pytest
from frames_for_laws import clinic, fit_clinic

from privatelr import PrivacyWarning, dplr, load_dataset, load_schema

OPTIONS = [
    {},
    {"op": False},
    {"eps": 0},
    {"bounds": None},
    {"bounds": {"age": (18, 90)}},
    {"row_norm": 0.5},
    {"rp_dim": 1},
    {"do_scale": True},
    {"seed": 1},
    {"threshold": "youden"},
    {"analysis": "one-log"},
    {"analysis": "cms11"},
    {"lambda_": 1e-9},
    {"lambda_": "PrivateLR"},
]


def page(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return fit_clinic(clinic(), **options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_layout(options):
    text = str(page(**options))
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= 79
    labels = [line.split("  ")[0] for line in lines[3:] if re.match(r"[A-Z]\w+  ", line)]
    assert labels[:5] == ["Promise", "Mechanism", "Rows", "Response", "Lambda"]
    assert sum("not private -----" in line for line in lines) == 1
    closing = " ".join(lines[-2:])
    assert "computed from the data." in closing


def test_what_is_private_stands_above_and_the_rest_below():
    above, below = str(page(threshold="topleft")).split(" not private -----")
    assert "epsilon = 1 (pure), coefficients only" in " ".join(above.split())
    assert "replace one of n = 40 records" in " ".join(above.split())
    assert "C-index" not in above
    assert "threshold" not in above
    assert "C-index" in below
    assert "topleft" in below


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "radius R = 1.8 from declared bounds; nothing was estimated from the data"),
        ({"bounds": None}, "no bounds for age, dose; declaring bounds={name: (lo, hi)} maps each"),
        ({"bounds": {"age": (18, 90)}}, "no bounds for dose; declaring bounds="),
        ({"row_norm": 0.5}, "shortened to length 0.5 (row_norm), below what the declared"),
        ({"rp_dim": 1}, "3 covariates onto 1 random directions, drawn without the data"),
        ({"lambda_": 1e-9}, "raised from 1e-09"),
        ({"lambda_": 0.5}, "Lambda 0.5, as given"),
        ({"op": False}, "output perturbation, spherical Laplace noise"),
        ({"eps": 0}, "none: eps=0 asks for the plain fit; nothing on this page is private"),
        ({"seed": 1}, "void: seeded noise; nothing on this page is private"),
        ({"do_scale": True}, "void: scaled by the data; nothing on this page is private"),
    ],
    ids=str,
)
def test_words(options, words):
    assert words in " ".join(str(page(**options)).split())


def test_a_level_that_is_none_is_named():
    fit = dplr("smoker == 'maybe' ~ age", clinic(), levels={"smoker": ["no", "yes"]})
    assert "'maybe' is not a declared level of smoker" in " ".join(str(fit).split())


def test_other_formats_keep_the_promise():
    summary = page().summary()
    for text in (summary.as_latex(), summary.as_csv()):
        assert "epsilon = 1 (pure)" in text
        assert "smoker" in text


def test_no_promise_where_there_is_none():
    for options in ({"eps": 0}, {"seed": 1}, {"do_scale": True}):
        text = str(page(**options))
        assert text.startswith("Non-private logistic regression")
        assert "covered by the promise" not in text
        assert "privacy sd" not in text


class _Text(HTMLParser):
    def __init__(self, source):
        super().__init__()
        self.open, self.words = [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += [] if self.open[-1:] == ["style"] else data.split()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_html_has_the_words_of_the_text(options):
    fit = page(**options)
    html = _Text(fit._repr_html_())
    assert html.open == []
    text = re.sub(r"-{5,}", " ", str(fit))
    assert html.words == text.split()


def test_html_is_escaped():
    fit = dplr("y < 1 ~ `a<b>`", {"y": [0, 1, 0], "a<b>": [1.0, 2.0, 3.0]})
    html = fit._repr_html_()
    assert "<b>" not in html
    assert "a&lt;b&gt;" in html


def test_long_names_keep_the_width():
    table = load_dataset("breast_cancer")
    fit = dplr("diagnosis ~ .^2", table, **load_schema("breast_cancer"))
    assert max(len(line) for line in str(fit).splitlines()) <= 79
    assert "mean radius:mean texture" in fit.coef.index


def test_repr_is_one_line_without_data():
    fit = fit_clinic(clinic())
    assert repr(fit) == "<Fit of 'y ~ age + dose + smoker', epsilon = 1 (pure)>"
