"""The table of several fits: its numbers, its formats, and the guarantee of all fits together."""

import pickle
import re
from dataclasses import replace
from functools import lru_cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FORMULA, SCHEMA, fit_clinic
from hypothesis import given
from hypothesis import strategies as st
from repeated_noise import drawn, trial

from privatelr import (
    REPLACE_PERSON,
    ZCDP,
    ArgumentError,
    GuaranteeError,
    Ledger,
    NonPrivate,
    PrivacyWarning,
    PureDP,
    choose,
    compare,
    dplpsvm,
    dplr,
    dpsimplex,
    dpsvm,
)
from privatelr.privacy import ZERO_OUT
from privatelr.results.pages import comparison

NOISE = ("privacy_sd_expected", "privacy_sd_limit")
MAKERS = {
    "inference": (dplr, FORMULA, {"eps": 2.0, "spend": "inference"}),
    "small": (dplr, "y ~ age", {"eps": 1.0}),
    "crossed": (dplr, "y ~ smoker * age", {"eps": 4.0, "spend": "inference"}),
    "gaussian": (dplr, FORMULA, {"eps": 1.0, "delta": 1e-6, "spend": "inference"}),
    "output": (dplr, FORMULA, {"eps": ZCDP(0.1), "op": False}),
    "svm": (dpsvm, FORMULA, {"eps": 1.0}),
    "chosen": (dplpsvm, FORMULA, {"eps": 4.0, "rounds": 20}),
    "simplex": (dpsimplex, FORMULA, {"eps": 2.0, "loss": "logistic"}),
    "plain": (dplr, FORMULA, {"eps": 0, "spend": "inference"}),
}


@lru_cache
def fit(name):
    model, formula, options = MAKERS[name]
    return drawn(model, formula, trial(), **SCHEMA, **options)


def fits(*names):
    return {name: fit(name) for name in names or MAKERS}


def rows(table):
    """The cells of each name, with those of the row of errors below it."""
    found, last = {}, ""
    for name, cells in zip(table.names, table.cells, strict=True):
        if name:
            found[last := name] = [list(cells), [""] * len(cells)]
        else:
            found[last][1] = list(cells)
    return found


def sentences(table):
    return " ".join(table.notes)


# -- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_the_frame_has_the_numbers_of_each_fit(level):
    table = compare(fits(), level=level).to_frame().set_index(["fit", "term"])
    for name, one in fits().items():
        own = table.loc[name].dropna(axis="columns", how="all")
        if name in ("inference", "crossed", "gaussian", "plain"):
            tidy = one.tidy(conf_int=True, conf_level=level).set_index("term")
            parts = ["sampling_sd", "privacy_sd", "unknown_sd"]
            names = ["estimate", "std_error", *parts, "conf_low", "conf_high"]
            assert list(own.columns) == names
            assert sorted(map(sorted_name, own.index)) == sorted(map(sorted_name, tidy.index))
            np.testing.assert_array_equal(np.sort(own, axis=0), np.sort(tidy[names], axis=0))
            continue
        assert (own["estimate"] == one.coef[own.index]).all()
        assert len(own) == len(one.coef)
        if name in ("small", "output", "svm"):
            for noise in ("privacy_sd_expected", "privacy_sd_limit"):
                assert (own[noise] == getattr(one, noise)[own.index]).all()
        else:
            assert list(own.columns) == ["estimate"]


def sorted_name(name):
    return sorted(name.split(":"))


@pytest.mark.parametrize("statistic", ["std_error", "conf_int"])
def test_cells_are_the_numbers_in_their_brackets(statistic):
    table = compare(fits(), statistic=statistic)
    frame = table.to_frame().set_index(["term", "fit"])
    for term, (first, below) in rows(table.terms).items():
        for name, cell, error in zip(table.terms.headers, first, below, strict=True):
            if (term, name) not in frame.index:
                assert (cell, error) == ("", "")
                continue
            known = frame.loc[(term, name)]
            assert float(cell) == pytest.approx(known["estimate"], rel=0.01)
            if not np.isnan(known["privacy_sd_limit"]):
                wanted = [known["privacy_sd_expected"], known["privacy_sd_limit"]]
                brackets = "{}"
            elif np.isnan(known["std_error"]):
                assert error == ""
                continue
            elif statistic == "conf_int":
                wanted, brackets = [known["conf_low"], known["conf_high"]], "[]"
            else:
                wanted, brackets = [known["std_error"]], "()"
            assert error[0] + error[-1] == brackets
            assert [float(x) for x in re.split("[,;] ", error[1:-1])] == pytest.approx(
                wanted, rel=0.01
            )


def test_odds_ratios_are_exponentials():
    names = ("inference", "small", "simplex", "plain")
    logs = compare(fits(*names)).to_frame()
    table = compare(fits(*names), exponentiate=True, statistic="conf_int")
    odds = table.to_frame()
    for column in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_allclose(odds[column], np.exp(logs[column]))
    for column in ("std_error", "sampling_sd", "privacy_sd", "unknown_sd", *NOISE):
        np.testing.assert_array_equal(odds[f"{column}_log"], logs[column])
    (cells, _), exact = rows(table.terms)["dose"], odds[odds["term"] == "dose"]["estimate"]
    for cell, value in zip(filter(None, cells), exact, strict=True):
        assert float(cell) == pytest.approx(value, rel=0.06)
    with pytest.raises(ArgumentError, match="support vector machine"):
        compare(fits("inference", "svm"), exponentiate=True)


# -- facts and sentences -------------------------------------------------------------------------


@given(st.integers(0, 10))
def test_digits_are_decimals_and_never_hide_a_number(digits):
    table = compare(fits("inference", "small", "crossed"), digits=digits)
    for first, below in rows(table.terms).values():
        errors = (one for error in below for one in error[1:-1].split("; "))
        for cell in filter(None, [*first, *errors]):
            mantissa, _, power = cell.partition("e")
            decimals = len(mantissa.partition(".")[2])
            assert decimals == (max(digits - 1, 0) if power else digits)
            assert float(cell) != 0


def test_what_makes_estimates_differ_is_said(monkeypatch):
    # the tables of a fit have other coefficients by default than a fit without inference
    said = sentences(compare(fits("inference", "small")))
    assert "different coefficients: unpenalised in inference, as released in small" in said
    assert "different" not in sentences(compare(fits("output", "small")))
    assert "different losses" in sentences(compare(fits("inference", "svm")))
    turned = drawn(dplr, "I(y == 0) ~ age", trial(), eps=1.0, **SCHEMA)
    said = sentences(compare({"a": fit("small"), "b": turned}))
    assert "Response of a: y: 1 (positive)" in said
    assert "Response of b: I(y == 0): True (positive)" in said
    real = comparison.infer_coefficients

    def other(one, asked):
        found = real(one, asked)
        return replace(found, target="other") if one is fit("crossed") else found

    monkeypatch.setattr(comparison, "infer_coefficients", other)
    said = sentences(compare(fits("inference", "crossed", "small", "output")))
    assert "unpenalised in inference, other in crossed, as released in small and output" in said


def test_the_table_is_a_function_of_the_releases():
    """A pickle has no diagnostics, which are not private."""
    assert all(one.has_diagnostics for one in fits().values())
    without = {name: pickle.loads(pickle.dumps(one)) for name, one in fits().items()}
    assert not any(one.has_diagnostics for one in without.values())
    one, other = compare(fits()), compare(without)
    assert one.as_text() == other.as_text()
    assert one.as_html() == other.as_html()
    assert one.to_frame().equals(other.to_frame())


# -- the guarantee of all ------------------------------------------------------------------------


def test_pure_prices_add_up_as_in_a_ledger():
    ledger = Ledger(10.0)
    names = ("inference", "small", "crossed")
    for name in names:
        ledger.charge(fit(name).guarantee)
    assert compare(fits(*names)).guarantee == PureDP(ledger.spent())
    assert "All fits together: epsilon = 7 (pure)" in sentences(compare(fits(*names)))


def test_prices_with_a_delta_are_those_of_a_ledger_that_was_planned():
    pair = [drawn(fit_clinic, trial(), eps=1.0, delta=1e-6, spend="inference") for _ in range(3)]
    account = Ledger(10.0, 1e-3)
    charged = [
        drawn(fit_clinic, trial(), eps=1.0, delta=1e-6, spend="inference", ledger=account)
        for _ in range(3)
    ]
    planned = Ledger.plan([(one.guarantee, one.events) for one in account.entries], 3e-6)
    for table in (compare(pair), compare(charged)):
        assert table.guarantee.delta == pytest.approx(3e-6)
        assert table.guarantee.epsilon == pytest.approx(planned.epsilon, rel=1e-9)
        assert table.guarantee.epsilon < 3
        assert str(table.guarantee) in sentences(table)
    # one release has its own guarantee, whatever its events compose to
    assert compare(pair[0]).guarantee == pair[0].guarantee


def test_a_release_costs_once(tmp_path):
    one = fit("inference")
    same = compare([one, one, replace(one, threshold=0.3)])
    assert same.guarantee == one.guarantee
    assert "costs once" in sentences(same)
    assert compare(one, fit("small"), one).guarantee == PureDP(3.0)
    assert "costs once" not in sentences(compare(fits("inference", "small")))


def test_a_fit_without_a_guarantee_voids_the_sum():
    with pytest.warns(PrivacyWarning):
        seeded = fit_clinic(trial(), seed=1)
    table = compare({**fits("inference", "plain", "small"), "seeded": seeded})
    assert isinstance(table.guarantee, NonPrivate)
    said = sentences(table)
    assert "no guarantee, because plain and seeded have none" in said
    assert "void: seeded noise in seeded" in said
    # noise that can be taken off hides nothing, so its size is not shown as an error
    of_seeded = table.to_frame().query("fit == 'seeded'").dropna(axis="columns", how="all")
    assert list(of_seeded) == ["fit", "term", "estimate"]
    assert "no standard errors of seeded" in said
    assert "The others together: epsilon = 3 (pure)" in said
    said = sentences(compare(fits("plain", "small")))
    assert "The price of small: epsilon = 1 (pure)" in said
    said = sentences(compare(fits("plain")))
    assert "have no guarantee, because plain has none" in said
    assert "epsilon =" not in said


def test_different_neighbours_are_refused():
    release = replace(fit("small").release, guarantee=PureDP(1.0, ZERO_OUT))
    with pytest.raises(GuaranteeError, match="compare: the fits are about different neighbours"):
        compare(fit("inference"), replace(fit("small"), release=release))


# -- formats -------------------------------------------------------------------------------------

LONG = "`a very_long name & of 5% #columns {that} cost $ ~ ^ <b> | \\x`"
LABEL = "A label that is longer than any column, with <i>marks</i> & 100% _ { } \\ ~ ^ $ # |"


@lru_cache
def odd():
    name = LONG.strip("`")
    frame = trial().assign(**{name: trial()["dose"]})
    bounds = {**SCHEMA["bounds"], name: (0, 5), "y": (0, 1)}
    formula = f"y ~ age + {LONG}"
    one = drawn(dplr, formula, frame, eps=1.0, bounds=bounds, spend="inference")
    return {LABEL: one, **fits()}


def test_text_fits_the_page_and_has_everything():
    table = compare(odd())
    lines = table.as_text().splitlines()
    assert max(map(len, lines)) <= 79
    words = table.as_text()
    for label in list(odd())[1:]:
        assert re.search(rf"\b{label}\b", words)
    for term in table.terms.names:
        assert term in words
    for cells in table.terms.cells:
        for cell in filter(None, cells):
            assert cell in words
    assert str(table) == words
    # numbers without a bracket end one before those in brackets
    head = compare(fits("inference", "small")).as_text().splitlines()
    assert len(head[2].rstrip()) == len(head[1].rstrip()) + 1


class Cells(HTMLParser):
    """The rows of the tables of a page."""

    def __init__(self, text):
        super().__init__()
        self.rows = []
        self.open = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def whole(table):
    gap = ("",) * len(table.terms.titles)
    return [list(row) for row in (table.terms.titles, *table.terms.rows, gap, *table.facts.rows)]


def test_html_has_every_cell_escaped():
    table = compare(odd(), statistic="conf_int")
    assert Cells(table.as_html()).rows == whole(table)
    assert table._repr_html_() == table.as_html()
    assert "<i>" not in table.as_html()


# -- what it takes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_fits", "options", "words"),
    [
        ([], {}, "there is no fit"),
        ([3], {}, "3 is no fit"),
        (None, {}, "None is no fit"),
        (trial(5), {}, "<DataFrame> is no fit"),
        ({1: fit("small"), "1": fit("small")}, {}, "'1' is the label of two fits"),
        ([fit("small")], {"digits": 2.5}, "digits=2.5"),
        ([fit("small")], {"digits": -1}, "digits=-1"),
        ([fit("small")], {"digits": "3"}, "digits='3'"),
        ([fit("small")], {"statistic": "std_err"}, "did you mean 'std_error'"),
        ([fit("small")], {"level": 95}, "level=95"),
        ([fit("small")], {"exponentiate": 1}, "exponentiate=1"),
    ],
)
def test_what_is_refused(given_fits, options, words):
    with pytest.raises(ArgumentError, match=re.escape(words)):
        compare(given_fits, **options)


def test_persons_of_different_columns_have_no_price_together():
    frame = made_up_persons()
    shown = {"bounds": {"age": (20, 80)}}
    patients = dplr("ill ~ age", frame, 1.0, person="patient", records_per_person=3, **shown)
    clinics = dplr("ill ~ age", frame, 1.0, person="clinic", **shown)
    assert compare(patients, patients).guarantee == PureDP(1.0, REPLACE_PERSON)
    with pytest.raises(GuaranteeError, match=r"^compare: persons that the column 'clinic' tells"):
        compare(patients, clinics)
    with pytest.raises(GuaranteeError, match=r"^choose: persons that the column 'clinic' tells"):
        choose({"patients": patients, "clinics": clinics}, frame, 1.0)


def test_persons_of_two_arrays_may_differ():
    """Nothing public says whose an array tells apart, so the sentences name what they rest on."""
    frame = made_up_persons()
    given = {"eps": 1.0, "bounds": {"age": (20, 80)}}
    patients, clinics = (
        dplr(frame["ill"].to_numpy(), frame[["age"]], person=frame[name].to_numpy(), **given)
        for name in ("patient", "clinic")
    )
    said = sentences(compare(patients, clinics))
    assert "used the same records, with the same values to tell persons apart;" in said
    assert "Their numbers of persons differ" in said
    assert "a person that is in all of them, with the same records" in said
    alike = sentences(compare(fit("inference"), fit("small")))
    assert "used the same records;" in alike
    assert "to tell persons apart" not in alike


def made_up_persons():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(20, 80, 300), "ill": rng.integers(0, 2, 300) == 1})
    return table.assign(patient=np.arange(300) // 3, clinic=np.arange(300) // 30)
