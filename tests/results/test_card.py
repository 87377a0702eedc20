"""The privacy card: true, complete, readable, and safe to show whatever the names are."""

import html
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import clinic, fit_clinic

from privatelr import (
    ZCDP,
    ApproxDP,
    ArgumentError,
    Ledger,
    PrivacyWarning,
    ReleaseFileError,
    dplr,
    load,
)
from privatelr.privacy import to_approximate
from privatelr.results.release_files import release_document

MECHANISMS = [
    {},
    {"op": False},
    {"delta": 1e-6},
    {"op": False, "delta": 1e-6},
    {"eps": ZCDP(0.1)},
    {"rp_dim": 2, "bounds": None},
    {"row_norm": 0.5, "threshold": "topleft"},
    {"row_norm": 0.5, "bounds": {"age": (18, 90)}},
]


def plain(text):
    """The words of a Markdown page."""
    return re.sub(r"\\(.)", r"\1", text)


@pytest.mark.parametrize("options", MECHANISMS, ids=str)
def test_the_card_states_the_record(options):
    fit = fit_clinic(clinic(), **options)
    text, calibration = plain(fit.card()), fit.calibration
    facts = {
        "Guarantee": str(fit.guarantee),
        "Neighbours": "replace one record",
        "Records": "n = 40",
        "Design": f"d = {calibration.problem.d} columns, intercept {fit.spec.intercept:g}, no row "
        f"longer than R = {calibration.problem.radius:.6g}",
        "Lambda": f"{calibration.lambda_:.3g}",
        "Mechanism": f"{calibration.placement} perturbation",
        "Noise": f"{calibration.noise.title}, scale {calibration.noise.scale:.6g}",
        "Certificate": f"{calibration.tau:.6g}",
        "Rounding": f"{calibration.grid:.6g}",
        "Randomness": "operating system",
        "Software": "numpy " + np.__version__,
    }
    for name, fact in facts.items():
        assert re.search(rf"\| {name} \| .*{re.escape(fact)}", text), name
    assert release_document(fit)["sha256"] in text
    for name, value in fit.coef.items():
        assert f"| {name} | {value:.6g} | {fit.privacy_sd_limit[name]:.3g} |" in text
    bounds = "from 18 to 90" if options.get("bounds", 1) else "nothing"
    assert f"| age | numeric | {bounds} |" in text
    assert "| smoker | categorical | no, yes |" in text
    assert ("learned from the training data" in text) == isinstance(fit.threshold, str)


@pytest.mark.parametrize("eps", [1.0, ZCDP(0.1), ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("op", [True, False])
def test_the_card_states_what_was_spent_on_what(eps, op):
    fit = fit_clinic(clinic(), eps=eps, op=op, spend="inference")
    text = plain(fit.card())
    moments = fit.release.moments.calibration
    whole = eps if eps != 1.0 else "epsilon = 1 (pure)"
    assert re.search(rf"\| Guarantee \| {re.escape(f'{whole}: coefficients')} .*inference", text)
    assert "Then they see the estimates and the matrices for inference." in text
    noise = (
        f"| Matrices for inference | {moments.noise.title} noise, scale {moments.noise.scale:.6g}"
    )
    assert f"{noise}, added to their 20 numbers together" in text
    assert f"{moments.grid:.6g}, decided exactly |" in text
    assert "The matrices have 4 rows and 4 columns." in text
    assert "with noise, in the units of the design" in text
    assert "each part is enough for its part of the guarantee, and the parts add up" in text
    assert release_document(fit)["sha256"] in text


def test_a_card_without_inference_does_not_speak_of_it():
    text = plain(fit_clinic(clinic()).card())
    assert "| Guarantee | epsilon = 1 (pure), coefficients only |" in text
    assert "matrices" not in text
    assert "inference" not in text


def test_the_matrices_of_a_plain_fit():
    text = plain(fit_clinic(clinic(), eps=0, spend="inference").card())
    assert "without noise, in the units of the design" in text
    assert "| Certificate |" not in text
    assert "| Matrices for inference |" not in text


def test_the_promise_in_words():
    pure = plain(fit_clinic(clinic(), eps=2.0).card())
    sure = 100 * math.exp(2) / (1 + math.exp(2))
    assert "knows the other 39 records" in pure
    assert "factor of at most exp(2) = 7.39" in pure
    assert f"can become {sure:.1f}% sure at most" in pure
    assert "household of four the factor is exp(8) = 2.98e+03" in pure
    approximate = plain(fit_clinic(clinic(), eps=2.0, delta=1e-7).card())
    assert "at most exp(2) = 7.39 times as probable" in approximate
    assert "plus 1e-07" in approximate
    concentrated = plain(fit_clinic(clinic(), eps=ZCDP(0.1)).card())
    implied = to_approximate(ZCDP(0.1), 1e-6).epsilon
    assert f"exp({implied:.6g})" in concentrated
    assert "rho = 1.6" in concentrated  # k squared times rho
    huge = plain(fit_clinic(clinic(), eps=5000.0).card())
    assert "exp(5000):" in huge
    assert "more than 99% sure" in huge


@pytest.mark.parametrize("format", ["markdown", "html"])
def test_what_is_not_private_is_loud(format):
    with pytest.warns(PrivacyWarning, match="seed"):
        seeded = fit_clinic(clinic(), seed=1, spend="inference")
    for fit, reason in ((seeded, "void: seeded noise"), (fit_clinic(clinic(), eps=0), "eps=0")):
        text = plain(fit.card(format))
        sentence = re.search(r"Nothing in this release is private \((.*)\)", text)
        assert sentence
        assert reason in sentence[1]
        assert "Differentially private" not in text
        assert "odds" not in text
        assert ('class="loud"' if format == "html" else "> **Nothing") in text


def test_a_charged_ledger_is_on_the_card():
    fit = fit_clinic(clinic(), ledger=Ledger(2.0).part("north"))
    text = plain(fit.card())
    assert "charged with epsilon = 1 (pure) for 'y ~ age + dose + smoker', part 'north'" in text
    assert "no ledger was charged" in plain(fit_clinic(clinic()).card())


@pytest.mark.parametrize("spend", [None, "inference"])
def test_a_loaded_fit_has_the_same_card(tmp_path, spend):
    fit = fit_clinic(clinic(), spend=spend)
    fit.save(tmp_path / "model.json")
    for format in ("markdown", "html"):
        loaded = load(tmp_path / "model.json")
        assert replace(loaded, origin=None).card(format) == fit.card(format)


def test_formats():
    with pytest.raises(ArgumentError, match=r"format='pdf': format takes 'markdown', 'html'"):
        fit_clinic(clinic()).card("pdf")


def test_a_card_without_a_file_is_refused():
    fit = fit_clinic(clinic())
    endless = replace(fit, release=replace(fit.release, coef=fit.release.coef * np.inf))
    with pytest.raises(ReleaseFileError, match=r"^card: a released number is not finite\.$"):
        endless.card()


# -- names that mean something to a browser or to Markdown -----------------------------------

EVIL = "<script>alert('1')</script> | *x* _y_ [a](b) & \\ #\n\n# top"


class Tags(HTMLParser):
    """The elements of a page, and whether each is closed in order."""

    void = frozenset({"meta", "link", "br"})

    def __init__(self):
        super().__init__()
        self.seen, self.open, self.text = set(), [], []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def evil_fit():
    frame = clinic().rename(columns={"age": EVIL})
    frame["smoker"] = pd.Categorical(frame["smoker"]).rename_categories(["<b>no", "`yes` |"])
    return dplr(f"y ~ `{EVIL}` + smoker", frame, levels={"y": [0, 1]})


def check_html(page):
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    known = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "pre", "ul", "li"}
    assert tags.seen <= known | {"div", "table", "thead", "tbody", "tr", "th", "td"}
    assert EVIL in "".join(tags.text)


def test_html_is_escaped_and_well_formed():
    check_html(evil_fit().card("html"))


def test_planted_raw_html_is_caught(monkeypatch):
    monkeypatch.setattr(html, "escape", str)
    with pytest.raises(AssertionError):
        check_html(evil_fit().card("html"))


def test_markdown_is_escaped():
    lines = evil_fit().card().splitlines()
    outside, fenced = [], False
    for line in lines:
        if re.fullmatch("`{3,}", line):
            fenced = not fenced
        elif not fenced:
            outside.append(line)
    assert not fenced
    assert [line for line in outside if line.startswith("# ")] == ["# Privacy card"]
    for line in outside:
        assert not re.search(r"(?<!\\)<", line)
        assert not re.search(r"(?<!\\)`", line)
    tables = [line for line in outside if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in tables}
    assert widths == {3, 4}  # two and three columns


def test_the_card_is_read_from_the_record():
    """A card of a record with other numbers states those."""
    fit = fit_clinic(clinic())
    other = replace(fit, release=replace(fit.release, coef=0 * fit.release.coef))
    assert fit.card() != other.card()
    assert "| age | 0 |" in other.card()
