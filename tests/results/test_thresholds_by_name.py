"""Thresholds by their rule; labels that would steer a terminal."""

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
