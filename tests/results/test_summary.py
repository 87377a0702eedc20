"""The printed page: its words, its width, and where the rule stands."""

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from case_names import case_name
from frames_for_laws import clinic, fit_clinic, fixed_noise
from hypothesis import given
from hypothesis import strategies as st
from repeated_noise import drawn, trial

from privatelr import (
    ZCDP,
    ArgumentError,
    Diagnostics,
    GuaranteeError,
    PrivacyWarning,
    dplr,
    dpsimplex,
    dpsvm,
    load,
)
from privatelr.inference import Inference, quality
from privatelr.page_model import as_lines
from privatelr.results.pages.coefficient_table import (
    bars_of,
    drawings,
    figures,
    inference_tables,
)

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
    {"spend": "inference"},
    {"spend": "inference", "op": False, "eps": 3},
    {"spend": {"coefficients": 0.6, "inference": 0.4}, "delta": 1e-6},
    {"spend": "inference", "eps": ZCDP(0.5)},
    {"spend": "inference", "eps": 0},
    {"spend": "inference", "seed": 1},
    {"spend": "inference", "model": dpsvm},
    {"spend": "inference", "rp_dim": 1, "bounds": None},
]
INFERRED = [options for options in OPTIONS if "spend" in options]


def page(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return fit_clinic(clinic(), **options)


@pytest.mark.parametrize("options", OPTIONS, ids=case_name)
def test_layout(options):
    text = str(page(**options))
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= 79
    labels = [line.split("  ")[0] for line in lines[3:] if re.match(r"[A-Z]\w+  ", line)]
    labels = [label for label in labels if label not in ("Loss", "Scale")]
    assert labels[:5] == ["Promise", "Mechanism", "Rows", "Response", "Lambda"]
    assert "not private -----" not in text
    closing = " ".join(lines[-3:])
    assert "computed from the data." in closing


RULE = " not private -----"
DIAGNOSED = "fit.diagnostics has them, and so has summary(diagnostics=True)."


@pytest.mark.parametrize(
    "options", [*OPTIONS, {"model": dpsvm}, {"model": dpsimplex}], ids=case_name
)
def test_no_number_of_the_training_data_is_on_a_page_that_nobody_asked_for(options):
    """The page is the same whatever the diagnostics are, and does not look at them."""
    fit = page(**options)
    other = replace(fit, _diagnostics=Forbidden())
    for look in (str, lambda fit: fit._repr_html_()):
        assert look(fit) == look(other)
    words = " ".join(str(fit).split())
    assert DIAGNOSED in words
    assert RULE not in str(fit)
    assert "not private</strong>" not in fit._repr_html_()


class Forbidden(Diagnostics):
    """Diagnostics that nobody may look at."""

    def __init__(self):
        pass

    def __getattribute__(self, name):
        raise AssertionError(f"{name} was looked at")


@pytest.mark.parametrize("model", [dplr, dpsvm, dpsimplex], ids=["dplr", "dpsvm", "dpsimplex"])
def test_diagnostics_stand_below_the_rule_where_they_are_asked_for(model):
    fit = page(threshold="topleft", model=model)
    above, below = fit.summary(diagnostics=True).as_text().split(RULE)
    above, below = " ".join(above.split()), " ".join(below.split())
    assert "No number above the line but the estimates" in above
    assert "C-index" not in above
    assert "was learned from the training data (topleft), so neither it nor" in above
    assert f"C-index {fit.diagnostics.c_index:.3f}." in below
    assert f"The threshold {fit.diagnostics.topleft:.3f} (topleft)" in below
    assert "Do not publish it." in below
    html = fit.summary(diagnostics=True).as_html()
    assert html.index("No number above the line") < html.index("color:#d32f2f")
    assert html.index("color:#d32f2f") < html.index("C-index")
    assert f"{fit.diagnostics.topleft:.3f} (topleft)" not in str(fit)


def test_a_loaded_fit_has_no_rule_and_says_why_there_is_nothing_below_it(tmp_path):
    page(threshold="youden").save(tmp_path / "model.json")
    loaded = load(tmp_path / "model.json")
    assert RULE not in str(loaded)
    assert "#d32f2f" not in loaded._repr_html_()
    assert DIAGNOSED not in " ".join(str(loaded).split())
    assert "a saved fit does not have it" in " ".join(str(loaded).split())
    with pytest.raises(GuaranteeError, match="diagnostics are computed from the training data"):
        loaded.summary(diagnostics=True)
    with pytest.raises(ArgumentError, match="diagnostics takes True or False"):
        loaded.summary(diagnostics="yes")


def test_no_promise_where_there_is_none():
    for options in ({"eps": 0}, {"seed": 1}, {"do_scale": True}):
        text = str(page(**options))
        assert text.startswith("Non-private logistic regression")
        assert "covered by the promise" not in text
        below = page(**options).summary(diagnostics=True).as_text().split(RULE)[1]
        assert "covered by the promise" not in below
        assert "C-index" in below
        assert "noise sd" not in text


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


@pytest.mark.parametrize("options", OPTIONS, ids=case_name)
def test_html_has_the_words_of_the_text(options, monkeypatch):
    with fixed_noise(monkeypatch):  # chance decides whether intervals, and so bars, are withheld
        fit = page(**options)
    page_of_fit = fit._repr_html_()
    legends = re.findall(r"<figcaption>.*?</figcaption>", page_of_fit)
    assert len(legends) == (fit.release.moments is not None)
    html = _Text(re.sub(r"<figcaption>.*?</figcaption>", "", page_of_fit))
    assert html.open == []
    text = re.sub(r"-{5,}", " ", str(fit))
    assert html.words == text.split()


def words_of(fit, **options):
    return " ".join(fit.summary(**options).as_text().split())


def shown_numbers(table, name):
    """The numbers of a row of a table, by its headers."""
    row = table.cells[table.names.index(name)]
    cells = (float(cell.removeprefix("<") or "nan") for cell in row)
    return dict(zip(table.headers, cells, strict=True))


@pytest.mark.parametrize("options", INFERRED, ids=case_name)
def test_the_table_of_inference(options):
    """It has no stars; the parts of the errors have their own table."""
    fit = drawn(page, **options)
    summary = fit.summary()
    head = next(line for line in str(fit).splitlines() if "Estimate" in line)
    known = quality(fit.release)
    exact = fit.tidy(conf_int=True).set_index("term").loc["dose"]
    errors = ["Std.", "Error"] if fit.bse.notna().any() else []
    tests = ["z", "Pr(>|z|)"] if errors else ["p-value"]
    judged = [] if known.hides_numbers or known.target == "penalised" else tests
    assert head.split() == ["Estimate", *errors, *judged, "[0.025", "0.975]"]
    assert "*" not in str(fit)
    assert "Standard errors were not" not in str(fit)
    columns = {"Estimate": "estimate", "Std. Error": "std_error"}
    columns |= {"[0.025": "conf_low", "0.975]": "conf_high"}
    columns |= {"z": "statistic", "Pr(>|z|)": "p_value", "p-value": "p_value"}
    several = ("sampling", "privacy", "unknown") if errors else ("sampling", "privacy")
    parts = {f"{part} sd": f"{part}_sd" for part in several}
    assert [table.headers for table in summary.parts] == (
        [] if options.get("eps") == 0 else [tuple(parts)]
    )
    columns |= parts if summary.parts else {}
    shown = {}
    for table in (summary.coefficients, *summary.parts):
        assert table.names == tuple(fit.coef.index)
        shown |= shown_numbers(table, "dose")
    for header in shown:
        number = pytest.approx(exact[columns[header]], rel=0.02, abs=0.006, nan_ok=True)
        assert shown[header] == number, header


def shrunk(lambda_=1.0, **options):
    return page(spend="inference", lambda_=lambda_, **options)


def test_shrunk_estimates_stand_alone():
    fit = shrunk(eps=20.0, do_scale=False)
    for summary in (fit.summary(), fit.summary(exponentiate=True)):
        assert len(summary.coefficients.headers) == 1
        assert not summary.parts
        for words in (" ".join(summary.as_text().split()), summary.as_html()):
            assert "Estimates are shrunk, by more than one step can take off." in words
            assert "no standard errors, intervals and tests" in words
            assert "nan" not in words
    # who asks for tests of what is penalised by its name gets them
    named = fit.summary(target="penalised")
    assert {"z", "Pr(>|z|)"} < {*named.coefficients.headers}
    assert "too much for target='unpenalised' to take off." in " ".join(str(named).split())
    assert "All of it is about the penalised coefficients" in " ".join(str(named).split())
    # nor has a machine any, whose penalty is a part of what it is
    machine = shrunk(eps=20.0, do_scale=False, model=dpsvm)
    assert {"z", "Pr(>|z|)", "p-value"}.isdisjoint(machine.summary().coefficients.headers)
    assert "Estimates are shrunk" not in str(machine)
    named = machine.summary(target="penalised").coefficients.headers
    assert {"z", "Pr(>|z|)"} < {*named}


@pytest.mark.parametrize("seed", range(4))
def test_modes_in_words(seed):
    fit = page(spend="inference", seed=seed)
    assert "posterior mode, unpenalised coefficients" in words_of(fit)
    assert "Posterior mode: errors are averaged" in words_of(fit)
    assert "Posterior mode, as asked for: errors are averaged" in words_of(fit, mode="posterior")
    assert "Plug-in mode, as asked for" in words_of(fit, mode="plug-in")
    assert "Std. Error has two parts whose squares" in words_of(fit, mode="plug-in")
    assert "unknown sd" not in words_of(fit, mode="plug-in")
    worst = words_of(fit, mode="conservative", target="penalised")
    assert "Conservative mode: the widest errors" in worst
    assert "dataset, as asked for." in worst
    assert "No Std. Error or z: a normal law would have other intervals or p-values." in worst
    fragile = page(spend={"coefficients": 0.98, "inference": 0.02}, model=dpsvm)
    assert "conservative mode, penalised coefficients" in words_of(fragile)
    assert "times the smallest eigenvalue of the matrix, which may come from" in words_of(fragile)
    plain, asked = page(spend="inference", eps=0, lambda_=1e-6), {"target": "penalised"}
    assert "the penalty hardly shrinks them." in words_of(plain, **asked)
    assert "took the penalty's bias off" in words_of(plain)
    shrunk = page(spend="inference", eps=0, lambda_=1e-3)
    assert "which summary(target='unpenalised') takes off." in words_of(shrunk, **asked)
    much = page(spend="inference", eps=0, lambda_=1.0)
    assert "too much for target='unpenalised'" in words_of(much, **asked)
    assert "Estimates are shrunk, by more than one step can take off." in words_of(much)
    assert "A smaller lambda_ (lambda) shrinks less." in words_of(much)


@pytest.mark.parametrize("eps", [1, ZCDP(0.5)], ids=str)
def test_wide_intervals_are_explained(eps):
    fit = page(spend={"coefficients": 0.998, "inference": 0.002}, eps=eps)
    ratio = quality(fit.release).noise_to_signal
    price = "rho" if isinstance(eps, ZCDP) else "epsilon"
    helps = f"More records, a larger {price} or fewer columns help; privatelr.plan says how much."
    least = "at least " if quality(fit.release).is_at_penalty else ""
    why = f"Intervals are wide because that noise is {least}{ratio:.3g} times the smallest"
    assert ratio > 5
    assert why in words_of(fit, mode="posterior")
    assert helps in words_of(fit, mode="posterior")
    assert helps in words_of(fit, mode="conservative", target="penalised")
    scale = "So may a share of the price for the scale of the columns."
    assert scale in words_of(fit, mode="posterior")
    scaled = page(spend={"scale": 0.1, "coefficients": 0.898, "inference": 0.002}, eps=eps)
    assert scale not in words_of(scaled, mode="posterior")
    clear = drawn(fit_clinic, trial(), spend="inference", eps=50.0)
    assert "Intervals are wide" not in words_of(clear)


def inferred(values):
    """An inference with such estimates, whatever they mean."""
    estimate = np.array(values)
    sd = np.maximum(abs(estimate) / 3, 1e-12)
    return Inference(
        estimate=estimate,
        null=np.zeros(len(sd)),
        sampling_sd=0.8 * sd,
        privacy_sd=0.36 * sd,
        unknown_sd=0.48 * sd,
        lower=estimate - 2 * sd,
        upper=estimate + 2 * sd,
        p_value=np.full(len(sd), 0.04),
        level=0.95,
        mode="posterior",
        target="penalised",
        method="sandwich",
    )


@pytest.mark.parametrize("size", [1e-7, 1e-3, 0.1, 1.0, 99.9999999, 1234.5, 99999.9, 1e7, 1e300])
def test_numbers_of_any_size_keep_the_width(size):
    fit = page(spend="inference")
    tables = inference_tables(fit, inferred([-size, size, 0.0, -0.5]))
    for table in tables:
        lines = as_lines(table)
        assert max(map(len, lines)) <= 79
        assert len({len(line) for line in lines if line[-1:].isdigit()}) == 1
    first = float(tables[0].cells[0][0])
    assert first == pytest.approx(-size, rel=0.01, abs=5e-7)


NUMBERS = st.lists(
    st.one_of(
        st.floats(-1e6, 1e6, allow_subnormal=False),
        st.floats(-8, 8).map(lambda power: -(10.0**power)),
    ),
    min_size=1,
    max_size=6,
)


def check_digits(figures, column):
    """Three digits of every number, as many decimals as its neighbours, within ten places."""
    shown = figures(column)
    for value, text in zip(column, shown, strict=True):
        assert float(text) == pytest.approx(value, rel=0.005001)
        digits = re.sub(r"e.*|[-.]", "", text).lstrip("0")
        assert len(digits) >= 3 or value == 0
        assert len(text) <= 10
    fixed = [text for text in shown if "e" not in text]
    assert len({len(text.partition(".")[2]) for text in fixed}) <= 1


@given(NUMBERS)
def test_numbers_show_three_digits_and_stand_below_each_other(column):
    check_digits(figures, column)


def test_bars_have_three_tones_and_one_axis():
    found = inferred([-1.0, 0.5, 2.0])
    bars, half = bars_of(found), found.upper - found.estimate
    np.testing.assert_allclose(bars.inner_upper - bars.estimate, 0.8 * half)
    np.testing.assert_allclose(bars.middle_upper - bars.estimate, np.hypot(0.8, 0.36) * half)
    np.testing.assert_allclose(bars.estimate - bars.middle_lower, np.hypot(0.8, 0.36) * half)
    shown, counted = drawings(found)
    assert not counted
    dashed = [re.search(r"<line x1='([\d.]+)'", one)[1] for one in shown]
    assert len(set(dashed)) == 1
    for one in shown:
        assert len({*re.findall(r"fill='(#\w+)'", one)}) == 3
        assert "currentColor" in one
        bar = r"<rect x='([\d.]+)' .*? width='([\d.]+)'"
        outer, middle, inner = (list(map(float, found)) for found in re.findall(bar, one))
        assert outer[0] < middle[0] < inner[0]
        assert outer[1] == pytest.approx(inner[1] / 0.8, rel=0.05)
        assert outer[1] == pytest.approx(middle[1] / np.hypot(0.8, 0.36), rel=0.05)
