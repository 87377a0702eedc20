"""scikit-learn's own checks of estimators, each expected failure with its reason."""

import warnings

import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn")

from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from privatelr.estimators import (
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateLPSVC,
    PrivateSimplexClassifier,
)

WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": "a record of weight 0 is one record of n, "
    "which is public, and a record of weight 2 is one record and not two",
    "check_sample_weight_equivalence_on_sparse_data": "as of dense data",
    "check_all_zero_sample_weights_error": "an error would tell that no record counts",
}
"""Expected failures of estimators that take weights."""
EXPECTED = {
    PrivateLogisticRegression: WEIGHTS,
    PrivateLinearSVC: WEIGHTS,
    PrivateLPSVC: {},
    PrivateSimplexClassifier: {},
}
"""Expected failures of any fit."""
NOISE = dict.fromkeys(
    (
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_decision_proba_consistency",
        "check_fit_idempotent",
        "check_supervised_y_2d",
    ),
    "it compares two fits, or a fit with the truth, and each fit draws new noise",
) | {"check_classifiers_one_label_sample_weights": "noise decides the class that is predicted"}
"""Checks that the noise decides; they may pass."""

PLAIN = {PrivateLPSVC: {"rounds": 10}}
QUICK = {**PLAIN, PrivateSimplexClassifier: {"draws": 2, "lambda_": 10}}
"""Parameters with which an estimator fits quickly, without noise and with it."""

KINDS = pytest.mark.parametrize("kind", EXPECTED, ids=lambda kind: kind.__name__)
pytestmark = pytest.mark.filterwarnings("ignore")


def outcomes(estimator, expected):
    """Return the names of the checks that failed as expected; another failure is raised."""
    found = check_estimator(estimator, expected_failed_checks=expected)
    return {one["check_name"] for one in found if one["status"] == "xfail"}


@KINDS
def test_checks_of_fits_without_noise_fail_as_listed(kind):
    expected = EXPECTED[kind]
    listed = {name for name in expected if hasattr(estimator_checks, name)}  # in this version
    assert outcomes(kind(eps=0, **PLAIN.get(kind, {})), expected) == listed


@KINDS
def test_checks_of_private_fits_pass_but_for_those_listed(kind):
    declared = {"bounds": (-4, 4), "classes": "from data"}  # the checks declare no classes
    outcomes(kind(**declared, **QUICK.get(kind, {})), {**EXPECTED[kind], **NOISE})


@pytest.mark.quick
@KINDS
def test_parameters_are_stored_untouched(kind):
    given = {
        name: object() for name in kind().get_params() if name not in {"eps", "ledger", "prior"}
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = kind(**given)
        assert all(getattr(made, name) is value for name, value in given.items())
        assert set(clone(kind()).get_params()) == set(kind().get_params())
