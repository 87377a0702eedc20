"""Private answers about persons with several records: how far a person moves them, and by whom."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from scipy import sparse

from privatelr import ArgumentError, FormulaError, GuaranteeError, PureDP, SchemaError, choose, dplr
from privatelr.design import shares_of
from privatelr.mechanisms.candidate_choice import total_score, total_score_of_persons
from privatelr.numerics import twice_concordant, weighted_concordant
from privatelr.privacy import REPLACE_PERSON
from privatelr.privacy.accounting import Ledger

SCORES = ("auc", "accuracy", "brier")
M = 6
SIZES = (3, 1, 2, 5, 1, 1, 4, 2) * 40
WHOSE = np.random.default_rng(8).permutation(np.repeat(np.arange(len(SIZES)), SIZES))


def tables():
    n, rng = len(WHOSE), np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, (n, 3))
    y = rng.random(n) < 1 / (1 + np.exp(-6 * x[:, 0]))
    return x, y, pd.DataFrame(x, columns=["X1", "X2", "X3"]).assign(y=y)


X, Y, FRAME = tables()
FRAME["person"] = WHOSE
GIVEN = {"row_norm": 1.0, "records_per_person": 2}


# -- how far a person moves a score --------------------------------------------------------------


def drawn_persons(draw, many, cells):
    """Persons of up to four records, each in a cell: who, and which cell."""
    sizes = [draw(st.integers(1, 4)) for _ in range(many)]
    where = [draw(st.integers(0, cells - 1)) for _ in range(sum(sizes))]
    return np.repeat(np.arange(many), sizes), np.array(where)


@st.composite
def neighbours(draw, cells):
    """Two datasets of M persons that differ in the last of them."""
    whose, where = drawn_persons(draw, M - 1, cells)
    both = []
    for _ in range(2):
        own = drawn_persons(draw, 1, cells)[1]
        both.append((np.append(whose, np.full(len(own), M - 1)), np.append(where, own), len(where)))
    return both


def shares(whose, most):
    return shares_of(np.bincount(whose)[whose], most)


def moved_choice(pair, score, most, seed, weigh=shares):
    """The length of the interval in which the scores of many fits move, all of one outcome."""
    rng, changes = np.random.default_rng(seed), []
    kinds = {"auc": np.array([0.0, 1.0, 2.0, np.nan]), "accuracy": np.array([-1.0, 1.0, np.nan])}
    values = kinds.get(score, np.array([0.0, 0.3, 1.0, np.nan]))
    for fit in range(60):
        same = rng.choice(values, pair[0][2])
        totals = []
        for whose, cells, others in pair:
            label = cells.astype(float) - 1
            own = rng.choice(values, len(cells) - others)
            if fit < 4:  # the best and the worst that can be said of the person and of the others
                own = np.where((label[others:] > 0) == (fit % 2 == 0), values[0], values[1])
                same = np.where((label[:others] > 0) == (fit < 2), values[0], values[1])
            weights = weigh(whose, most)
            totals.append(total_score_of_persons(score, label, np.append(same, own), weights, M))
        changes.append(totals[1] - totals[0])
    return np.ptp(changes)


@over(neighbours(3), st.sampled_from(SCORES), st.integers(1, 3), st.integers(0, 99))
def test_scores_of_all_fits_move_within_two(pair, score, most, seed):
    assert moved_choice(pair, score, most, seed) <= 2 + 1e-12


@pytest.mark.parametrize("score", SCORES)
def test_records_that_count_fully_move_further_than_two(score):
    whose, others = np.append(np.arange(M - 1), [M - 1] * 4), np.zeros(M - 1, dtype=int)
    pair = [(whose, np.append(others, [2] * 4), M - 1)] * 2
    most = [
        max(moved_choice(pair, score, 1, seed, weigh) for seed in range(20))
        for weigh in (shares, lambda whose, most: np.ones(len(whose)))
    ]
    assert most[0] <= 2 + 1e-12
    assert most[1] > 2.5


@over(st.lists(st.tuples(st.integers(-1, 1), st.sampled_from([0.2, 0.5, 0.9, None])), min_size=1))
def test_persons_of_one_record_have_the_score_of_records(records):
    label = np.array([record[0] for record in records], dtype=float)
    place = np.array([record[1] for record in records], dtype=float)
    classes = np.where(np.isnan(place), np.nan, np.where(place > 0.4, 1.0, -1.0))
    alone, n = np.ones(len(records)), len(records)
    for score in SCORES:
        given = label, classes if score == "accuracy" else place
        found = total_score_of_persons(score, *given, alone, n)
        assert found == pytest.approx(total_score(score, *given), abs=1e-6)


@over(
    st.lists(
        st.tuples(st.integers(-1, 1), st.sampled_from([0.2, 0.5, 0.9, np.nan]), st.integers(0, 4)),
        min_size=1,
    )
)
def test_a_weight_is_a_number_of_equal_records(records):
    label, place, weight = (np.array(each, dtype=float) for each in zip(*records, strict=True))
    often = np.repeat(np.arange(len(weight)), weight.astype(int))
    twice, positives, negatives = twice_concordant(label[often], place[often])
    assert weighted_concordant(label, place, weight) == (twice / 2, positives, negatives)


# -- answers --------------------------------------------------------------------------------------


def fits(**given):
    """Of the same numbers, once as a frame and once as a sparse matrix."""
    frame = dplr("y ~ .", FRAME, 1, person="person", **GIVEN, **given)
    return frame, dplr(Y, sparse.csr_array(X), 1, person=WHOSE, **GIVEN, **given)


ASK = {
    "private_roc": lambda fit, *data, **given: fit.private_roc(*data, **given),
    "choose": lambda fit, *data, **given: choose({"one": fit, "two": fit}, *data, **given),
}


def paid(answer):
    return getattr(answer, "choice_guarantee", answer.guarantee)


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_answers_are_about_persons_and_paid_by_them(ask):
    """Values beside the data have the name of the column, which the ledger compares."""
    frame, matrix = fits()
    beside = {"response": Y, "person": pd.Series(WHOSE, name="person")}
    for fit, data, given in (
        (frame, FRAME, {}),
        (frame, X, beside),
        (matrix, X, beside),
        (matrix, sparse.csr_array(X), beside),
    ):
        ledger = Ledger(3.0, neighbours="person")
        answer = ask(fit, data, 1, ledger=ledger, **given)
        assert answer.nobs == len(SIZES)
        assert paid(answer) == PureDP(1, REPLACE_PERSON) == ledger.entries[0].guarantee
        page = " ".join(str(answer).split())
        assert "all records of one of" in page
        assert "person" in page
        assert not re.search(rf"(?<![\d.]){len(WHOSE)}(?!\d)", page)
        with pytest.raises(GuaranteeError, match="'person'"):
            ask(fit, data, 1, ledger=Ledger(3.0), **given)
        with pytest.raises(GuaranteeError, match="'person'"):
            ask(fit, data, PureDP(1), **given)


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_values_beside_the_data_give_the_answer_of_the_columns(ask):
    fit, found = fits()[0], []
    for data, given in ((FRAME, {}), (X, {"response": Y, "person": WHOSE.tolist()})):
        with pytest.warns(UserWarning, match="seed"):
            found.append(str(ask(fit, data, 2, seed=3, **given)))
    assert found[0] == found[1]


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_errors_about_the_data_name_no_length(ask):
    frame, matrix = fits()
    for fit, data in ((frame, X), (matrix, X), (matrix, sparse.csr_array(X))):
        for response, person in ((Y[:-1], WHOSE), (Y, WHOSE[:-1])):
            with pytest.raises(SchemaError, match="their lengths differ") as caught:
                ask(fit, data, 1, response=response, person=person)
            assert not re.search(r"\d", str(caught.value))
        for given in ({"response": Y}, {"person": WHOSE}):
            with pytest.raises(ArgumentError, match="response, person: both are columns"):
                ask(fit, data, 1, **given)
        with pytest.raises(ArgumentError, match="person='person': beside response"):
            ask(fit, data, 1, response=Y, person="person")
    with pytest.raises(ArgumentError, match="response, person: both are columns"):
        ask(matrix, X, 1)
    with pytest.raises(FormulaError, match="the column 'person' is missing"):
        ask(frame, FRAME.drop(columns="person"), 1)
    with pytest.raises(ArgumentError, match="person: the fit is about records"):
        ask(dplr("y ~ X1", FRAME, 1, row_norm=1.0), X, 1, response=Y, person=WHOSE)


def test_a_choice_is_among_fits_about_the_same_persons():
    frame = fits()[0]
    records = dplr("y ~ X1", FRAME, 1, row_norm=1.0)
    with pytest.raises(GuaranteeError, match=r"^choose: the fits are about different neighbours"):
        choose({"one": frame, "two": records}, FRAME, 1)
    others = (
        dplr("y ~ X1", FRAME, 1, row_norm=1.0, person="person"),
        dplr("y ~ X1", FRAME, 0, row_norm=1.0, person="person", lambda_=0.1),
    )
    for other in others:
        with pytest.raises(GuaranteeError, match="about records, or about persons with one number"):
            choose({"one": frame, "two": other}, FRAME, 1)


def test_the_better_fit_is_chosen_by_what_persons_count():
    """One person has most of the records, and counts once: records alone would choose the other."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 1400)
    whose = np.append(np.arange(400), np.full(1000, 400))
    sign = np.where(whose < 400, 1, -1)
    frame = pd.DataFrame({"x": x, "y": sign * x > 0, "person": whose})
    good, bad = (
        dplr(
            "y ~ x",
            frame.assign(y=side * x > 0),
            0,
            lambda_=0.01,
            bounds={"x": (-1, 1)},
            person="person",
            threshold=0.5,
        )
        for side in (1, -1)
    )
    for score in SCORES:
        for _ in range(5):
            assert choose({"bad": bad, "good": good}, frame, 5, score=score).label == "good"
