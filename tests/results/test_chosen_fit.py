"""`choose`: one of several fits by a private score, its price, and what it must not tell."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from frames_for_laws import SCHEMA, FixedRandomness, clinic_by_age, replaced

from privatelr import (
    ZCDP,
    ApproxDP,
    ArgumentError,
    FormulaError,
    GuaranteeError,
    Ledger,
    NonPrivate,
    PrivateLRError,
    PureDP,
    choose,
    compose,
    dplpsvm,
    dplr,
    dpsvm,
    implies,
    load,
    to_zcdp,
)
from privatelr.audit.enumerated_answers import law_of_flips
from privatelr.mechanisms.candidate_choice import calibrate_choice
from privatelr.results import predict
from privatelr.results.answers import scored_records
from privatelr.results.answers.chosen_fit import scores_of
from privatelr.results.answers.scored_records import open_data

MANY = 400
SCORES = ("auc", "accuracy", "brier")


@pytest.fixture(scope="module")
def frame():
    return clinic_by_age(2 * MANY)


@pytest.fixture(scope="module")
def parts(frame):
    return frame[:MANY], frame[MANY:]


@pytest.fixture(scope="module")
def fits(parts):
    return {
        "dose": dplr("y ~ dose", parts[0], eps=2.0, **SCHEMA),
        "age": dplr("y ~ age", parts[0], eps=1.5, **SCHEMA),
    }


# -- what is chosen --------------------------------------------------------------------------------


@pytest.mark.parametrize("score", SCORES)
def test_at_a_fair_price_the_better_fit_is_chosen(score, fits, parts):
    found = choose(fits, parts[1], eps=1.0, score=score)
    assert found.label == "age"
    assert found.fit is fits["age"]
    assert found.labels == ("dose", "age")


def test_every_model_and_a_fit_from_a_file_can_be_chosen(fits, parts, tmp_path):
    fits["age"].save(tmp_path / "age.json")
    several = {
        "svm": dpsvm("y ~ dose", parts[0], eps=2.0, **SCHEMA),
        "columns": dplpsvm("y ~ dose", parts[0], eps=2.0, rounds=20, **SCHEMA),
        "file": load(tmp_path / "age.json"),
    }
    for score in ("auc", "accuracy"):
        assert choose(several, parts[1], eps=2.0, score=score).label == "file"


def test_fits_of_matrices_take_their_outcomes_beside_them():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (600, 3))
    y = (x[:, 0] + rng.normal(0, 0.3, 600) > 0).astype(float)
    fits = {
        "right": dplr(y, x, eps=5.0, row_norm=2.0, levels={"y": [0, 1]}),
        "wrong": dplr(1 - y, x, eps=5.0, row_norm=2.0, levels={"y": [0, 1]}),
    }
    assert choose(fits, x, eps=1.0, response=y).label == "right"


@pytest.mark.parametrize("score", SCORES)
def test_every_score_is_that_of_the_predictions(score, fits, parts):
    test = parts[1]
    opened = {label: open_data(fit, test, None) for label, fit in fits.items()}
    found = scores_of(opened, score)
    for value, fit in zip(found, fits.values(), strict=True):
        if score == "accuracy":
            assert value == np.count_nonzero(fit.predict(test, "classes") == test.y)
        elif score == "brier":
            lost = ((fit.predict(test) - test.y) ** 2).sum()
            assert value == pytest.approx(MANY - lost, abs=1e-4)
        else:
            higher = fit.predict(test)[test.y == 1].to_numpy()
            lower = fit.predict(test)[test.y == 0].to_numpy()[:, None]
            pairs = (higher > lower).sum() + (higher == lower).sum() / 2
            larger = max(higher.size, lower.size, 2 * MANY / 3)
            assert value == pytest.approx(pairs / larger)


def test_accuracy_is_at_the_threshold_of_each_fit(parts):
    fits = {cut: dplr("y ~ age", parts[0], eps=5.0, threshold=cut, **SCHEMA) for cut in (0.5, 1.0)}
    assert choose(fits, parts[1], eps=2.0, score="accuracy").label == "0.5"


# -- what it costs ---------------------------------------------------------------------------------


def test_the_prices_of_candidates_and_choice_add_up(fits, parts):
    found = choose(fits, parts[1], eps=0.25)
    assert found.choice_guarantee == PureDP(0.25)
    assert found.candidates_guarantee == PureDP(3.5)
    assert found.guarantee == PureDP(3.75)
    same = choose({"one": fits["age"], "two": fits["age"]}, parts[1], eps=0.25)
    assert same.guarantee == PureDP(1.75)  # a release counts once


def test_parts_of_a_ledger_cost_the_dearer_one(parts):
    ledger = Ledger(1.0)
    fits = {
        name: dplr(f"y ~ {name}", parts[0], eps=0.5, ledger=ledger.part("train"), **SCHEMA)
        for name in ("age", "dose")
    }
    found = choose(fits, parts[1], eps=0.8, ledger=ledger.part("test"))
    assert ledger.spent() == pytest.approx(1.0)
    assert found.entry == ledger.entries[-1]
    assert found.entry.label == "choice among 'age', 'dose'"


def test_the_ledger_is_charged_before_anything_is_scored(fits, parts, monkeypatch):
    ledger, seen, real = Ledger(1.0), [], predict.linear_predictors

    def watched(model, data):
        seen.append(len(ledger.entries))
        return real(model, data)

    monkeypatch.setattr(predict, "linear_predictors", watched)
    choose(fits, parts[1], eps=0.6, ledger=ledger)
    with pytest.raises(GuaranteeError):
        choose(fits, parts[1], eps=0.6, ledger=ledger)
    assert seen == [1, 1]


def test_without_a_guarantee_there_is_no_promise_for_all(fits, parts):
    plain = dplr("y ~ age", parts[0], eps=0, **SCHEMA)
    found = choose({**fits, "plain": plain}, parts[1], eps=0.3)
    assert isinstance(found.guarantee, NonPrivate)
    assert found.choice_guarantee == PureDP(0.3)
    assert "There is no promise for all" in found.as_text()
    assert "may be published" not in found.as_text()


# -- what it tells ---------------------------------------------------------------------------------


def test_its_page_tells_the_price_and_what_may_be_published(fits, parts):
    found = choose(fits, parts[1], eps=0.25)
    page = " ".join(str(found).split())
    assert "Chosen privately: age" in page
    assert "epsilon = 3.75 (pure), for every record" in page
    assert "epsilon = 3.5 (pure); for the records that they were trained on" in page
    assert "epsilon = 0.25 (pure); for the n = 400 scored records" in page
    assert "every candidate, chosen or not, may be published" in page
    gap = calibrate_choice(MANY, 2, "auc", PureDP(0.25)).resolution()
    assert f"worse by {gap:.2g} have a chance of at most 0.05" in page
    assert max(map(len, str(found).splitlines())) <= 79
    assert "<strong>Chosen privately: age</strong>" in found._repr_html_()


def test_a_price_that_tells_nothing_apart_says_so(fits, parts):
    assert "nearly one by lot" in str(choose(fits, parts[1][:9], eps=0.25))


def test_a_pickle_has_no_score_and_no_record(fits, parts):
    found = choose(fits, parts[1].assign(age=61.12345678901234), eps=0.25)
    kept = pickle.dumps(found)
    assert np.float64(61.12345678901234).tobytes() not in kept
    again = pickle.loads(kept)
    assert str(again) == str(found)
    assert not again.fit.has_diagnostics


ODD = [
    {"age": np.nan},
    {"age": np.inf},
    {"age": "old"},
    {"dose": None},
    {"y": np.nan},
    {"y": 7.0},
    {"y": "ill"},
    {"smoker": "never said"},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_odd_values_of_a_record_are_not_told(odd, score, fits, parts, monkeypatch):
    monkeypatch.setattr(scored_records, "SystemRandomness", FixedRandomness)
    test = parts[1][:60].astype({name: object for name in odd}).reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pages = [
            str(choose(fits, frame, eps=1e-3, score=score))
            for frame in (test, replaced(test, 0, **odd))
        ]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("score", SCORES)
def test_the_choice_of_neighbouring_tables_loses_at_most_the_claim(score, fits, parts):
    """Records of tables are replaced by others, usable or not, and the exact laws compared."""
    rng, epsilon, worst = np.random.default_rng(1), 2.0, 0.0
    for _ in range(20):
        test = parts[1].sample(7, random_state=rng).reset_index(drop=True).astype(object)
        new = {"age": rng.choice([18.0, 90.0]), "dose": rng.choice([0.0, 5.0])}
        new["y"] = rng.choice([0.0, 1.0])
        if rng.random() < 0.3:
            new[rng.choice(["age", "dose", "y"])] = None
        calibration = calibrate_choice(7, 2, score, PureDP(epsilon))
        mechanism = calibration.mechanism
        laws = [
            law_of_flips(
                scores_of({k: open_data(fit, frame, None) for k, fit in fits.items()}, score)
                * (mechanism.epsilon / mechanism.width)
            )
            for frame in (test, replaced(test, 0, **new))
        ]
        worst = max(worst, float(np.abs(np.log(laws[0]) - np.log(laws[1])).max()))
    assert 0 < worst <= epsilon * (1 + 1e-9)


# -- calls in place of fits ------------------------------------------------------------------------


def test_calls_are_made_in_their_order_and_paid_for(parts):
    ledger, train = Ledger(10.0), parts[0]
    calls = {
        "dose": partial(dplr, "y ~ dose", train, eps=1.5, ledger=ledger, **SCHEMA),
        "age": lambda: dplr("y ~ age", train, eps=2.0, ledger=ledger, **SCHEMA),
    }
    found = choose(calls, parts[1], eps=1.0, ledger=ledger)
    assert [entry.guarantee for entry in ledger.entries] == [PureDP(1.5), PureDP(2.0), PureDP(1.0)]
    assert found.guarantee == PureDP(4.5)
    assert found.candidates_guarantee == PureDP(3.5)
    assert found.label == "age"
    assert found.fit.formula == "y ~ age"


def test_a_rho_buys_the_pure_epsilon_that_implies_it(fits, parts):
    found = choose(fits, parts[1], ZCDP(0.1))
    assert found.choice_guarantee == ZCDP(0.1)
    assert to_zcdp(found.calibration.target).rho == pytest.approx(0.1)
    assert implies(compose([found.candidates_guarantee, ZCDP(0.1)]), found.guarantee)


# -- refusals --------------------------------------------------------------------------------------


def test_wrong_arguments_are_refused(fits, parts):
    test = parts[1]
    with pytest.raises(ArgumentError, match="two or more fits"):
        choose({"one": fits["age"]}, test, eps=1.0)
    with pytest.raises(ArgumentError, match="mapping from labels"):
        choose([*fits.values()], test, eps=1.0)
    with pytest.raises(ArgumentError, match="calls without arguments that make them"):
        choose({**fits, "later": "y ~ age"}, test, eps=1.0)
    with pytest.raises(ArgumentError, match="is no fit"):
        choose({**fits, "later": lambda: "y ~ age"}, test, eps=1.0)
    with pytest.raises(ArgumentError, match="score takes 'auc', 'accuracy', 'brier'"):
        choose(fits, test, eps=1.0, score="log_loss")
    with pytest.raises(GuaranteeError, match="no use for a delta"):
        choose(fits, test, ApproxDP(1.0, 1e-6))
    with pytest.raises(GuaranteeError, match="above 0"):
        choose(fits, test, 0)
    with pytest.raises(ArgumentError, match="empty"):
        choose(fits, test[:0], eps=1.0)
    with pytest.raises(FormulaError, match="age"):
        choose(fits, test.drop(columns="age"), eps=1.0)
    with pytest.raises(ArgumentError, match="eps"):
        choose(fits, test)
    with pytest.raises(ArgumentError, match="new noise, which is secret"):
        choose(fits, test, eps=1.0, random_state=1)


def test_fits_of_other_responses_are_refused(fits, parts):
    turned = dplr("y == 0 ~ age", parts[0], eps=1.0, **SCHEMA)
    with pytest.raises(ArgumentError, match="one response"):
        choose({**fits, "turned": turned}, parts[1], eps=1.0)


def test_scores_that_a_fit_does_not_have_are_refused(fits, parts):
    svm = dpsvm("y ~ age", parts[0], eps=1.0, **SCHEMA)
    with pytest.raises(ArgumentError, match="'svm' has margins"):
        choose({**fits, "svm": svm}, parts[1], eps=1.0, score="brier")
    learned = dplr("y ~ age", parts[0], eps=1.0, threshold="youden", **SCHEMA)
    with pytest.raises(GuaranteeError, match="threshold of 'learned' was learned"):
        choose({**fits, "learned": learned}, parts[1], eps=1.0, score="accuracy")
    assert choose({**fits, "learned": learned}, parts[1], eps=1.0).label


def test_fits_of_different_records_are_not_compared(parts, fits):
    old = dplr("y ~ age", parts[0], eps=2.0, subset="age > 50", **SCHEMA)
    with pytest.raises(ArgumentError, match="one subset"):
        choose({**fits, "old": old}, parts[1], eps=1.0)


def test_a_threshold_that_was_bought_is_one_for_accuracy(parts, fits):
    spend = {"coefficients": 0.5, "roc": 0.5}
    made = {"eps": 20.0, "spend": spend, "threshold": "youden", **SCHEMA}
    bought = dplr("y ~ age", parts[0], **made)
    found = choose({"dose": fits["dose"], "bought": bought}, parts[1], eps=5.0, score="accuracy")
    assert found.label == "bought"


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": None},
        {"data": clinic_by_age(40).iloc[:0]},
        {"seed": "x"},
        {"ledger": 3},
        {"ledger": Ledger(0.1)},
        {"eps": 0.0},
    ],
    ids=["no data", "no records", "seed", "no ledger", "small ledger", "no price"],
)
def test_calls_are_made_only_once_the_rest_is_right(wrong):
    made = []
    calls = {name: lambda name=name: made.append(name) for name in ("one", "other")}
    with pytest.raises(PrivateLRError):
        choose(calls, **{"data": clinic_by_age(40), "eps": 0.5, **wrong})
    assert made == []


def test_a_part_pays_for_calls_while_another_part_is_empty(parts):
    """What fits is decided as a charge decides it, and looking at it leaves no entry."""
    ledger, (train, test) = Ledger(4.0), parts
    ledger.part("other").charge(PureDP(3.9))
    calls = {
        name: lambda name=name: dplr(f"y ~ {name}", train, eps=1.0, **SCHEMA)
        for name in ("age", "dose")
    }
    choose(calls, test, eps=0.5, ledger=ledger.part("one"))
    assert [entry.part for entry in ledger.entries] == ["other", "one"]
