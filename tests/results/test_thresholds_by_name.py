"""Thresholds by their rule, or as answers; lost classes; labels that would steer a terminal."""

import numpy as np
import pytest
from frames_for_laws import SCHEMA, clinic_by_age

import privatelr as lr

pytestmark = pytest.mark.quick
FORMULA, MANY = "y ~ age + dose + smoker", 1200


@pytest.fixture(scope="module")
def frame():
    return clinic_by_age(MANY)


@pytest.fixture(scope="module")
def fit(frame):
    return lr.dplr(FORMULA, frame, eps=4.0, **SCHEMA)


def test_rates_stand_at_thresholds_by_their_rule(frame, fit):
    curve = fit.private_roc(frame, eps=4.0)
    by_name = curve.at(["youden", "topleft", 0.5])
    by_number = curve.at([curve.youden, curve.topleft, 0.5])
    assert by_name.equals(by_number)
    assert curve.at("youden").equals(curve.at(curve.youden))
    with pytest.raises(lr.ArgumentError, match="'youden' or 'topleft'"):
        curve.at("best")


def test_rates_are_nan_at_the_rule_of_a_curve_without_a_class(frame, fit):
    curve = fit.private_roc(frame.assign(y=1.0).iloc[:30], eps=8.0)
    found = curve.at("youden")
    assert np.isnan(curve.youden) == bool(
        found[["sensitivity", "specificity"]].isna().all(axis=None)
    )


def test_an_answer_is_a_threshold_of_predict(frame, fit, tmp_path):
    answer = fit.private_threshold(frame, eps=1.0)
    answer.save(tmp_path / "threshold.json")
    expected = fit.predict(frame, "classes", threshold=answer.value)
    for given in (answer, lr.load(tmp_path / "threshold.json")):
        assert fit.predict(frame, "classes", threshold=given).equals(expected)
    selected = lr.dplpsvm("y ~ age + dose", frame, eps=4.0, rounds=5, **SCHEMA)
    margin = selected.private_threshold(frame, eps=1.0)
    assert selected.predict(frame, threshold=margin).equals(
        selected.predict(frame, threshold=float(margin))
    )


def test_a_margin_is_no_probability(frame, fit):
    svm = lr.dpsvm("y ~ age", frame, eps=4.0, **SCHEMA)
    with pytest.raises(lr.ArgumentError, match="the answer is a margin, and this fit takes"):
        fit.predict(frame, "classes", threshold=svm.private_threshold(frame, eps=1.0))
    with pytest.raises(lr.ArgumentError, match="threshold"):
        fit.predict(frame, "classes", threshold=fit.private_auc(frame, eps=1.0))


@pytest.mark.parametrize("eps", [0.1, 8.0])
def test_an_area_of_one_class_says_so_as_its_curve_does(eps, frame, fit):
    """By released numbers alone: the same for an answer that is read from its file."""
    one, words = frame.assign(y=1.0), "the noise hides whether there are any records"
    for seed in range(3):
        with pytest.warns(lr.PrivacyWarning):
            assert words in " ".join(str(fit.private_auc(one, eps=eps, seed=seed)).split())
    assert words not in " ".join(str(fit.private_auc(frame, eps=8.0)).split())


def test_labels_of_a_choice_are_escaped(frame, fit):
    odd = "a\x1b[31m\x07b"
    chosen = lr.choose({odd: fit, f"{odd}2": fit}, frame, 0.5)
    for shown in (str(chosen), chosen.as_html(), chosen.card(), chosen.card("html"), repr(chosen)):
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_truths_are_refused_before_their_bounds_are_paid_for(frame):
    ledger = lr.Ledger(4.0)
    for column in (frame["y"] > 0, (frame["y"] > 0).astype("boolean")):
        with pytest.raises(lr.SchemaError, match="true or false, which needs no bounds"):
            lr.suggest_bounds(frame.assign(z=column), {"z": (0, 5)}, 1.0, ledger=ledger)
    assert not ledger.entries
