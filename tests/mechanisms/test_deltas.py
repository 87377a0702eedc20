"""A delta is held against the number of records, at every front door."""

import re
import warnings

import pytest
from frames_for_laws import MODELS, clinic, fit_clinic

from privatelr import ApproxDP, GuaranteeError, PrivacyWarning, dplpsvm, dpsimplex, plan
from privatelr.mechanisms import require_below_one_record, warn_of_large_delta, warn_of_one_record

RECORDS = 40


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("price", [{"eps": 1.0, "delta": 1 / RECORDS}, {"eps": ApproxDP(1.0, 0.1)}])
def test_a_delta_that_allows_to_publish_a_record_is_named(model, price):
    said = r"not below 1/n = 0\.025, .* take 0\.0001, or less"
    with pytest.warns(PrivacyWarning, match=said) as w:
        fit_clinic(clinic(n=RECORDS), model=model, **price)
    assert [str(one.message).split(" ")[0] for one in w] == [f"delta={price.get('delta', 0.1):g}"]
    assert w[0].filename.endswith("frames_for_laws.py")  # the line of the caller


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_no_word_of_a_smaller_delta(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_clinic(clinic(n=RECORDS), model=model, delta=0.99 / RECORDS)


def test_a_plan_names_it_too():
    with pytest.warns(PrivacyWarning, match=r"not below 1/n = 0\.01") as w:
        plan(2, 100, 1.0, 0.5)
    assert w[0].filename == __file__


@pytest.mark.parametrize("n", [40, 49, 98, 103, 400, 6500])
def test_the_double_nearest_to_one_record_is_not_below_it(n):
    with pytest.raises(GuaranteeError) as refusal:
        require_below_one_record(ApproxDP(1.0, 1 / n), n)
    advised = float(re.search(r"take ([^,]+), or less", str(refusal.value))[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for check in (warn_of_one_record, warn_of_large_delta):
            check(ApproxDP(1.0, advised), n, stacklevel=1)
    require_below_one_record(ApproxDP(1.0, advised), n)


@pytest.mark.parametrize("model", [dplpsvm, dpsimplex])
def test_choices_refuse_it_and_name_a_large_one(model):
    frame = clinic(n=400)
    with pytest.raises(GuaranteeError, match="delta takes a number below 1/n"):
        fit_clinic(frame, model=model, eps=1.0, delta=1 / 400)
    with pytest.warns(PrivacyWarning, match=r"above n\*\*-1\.5") as w:
        fit_clinic(frame, model=model, eps=1.0, delta=1e-3)
    assert w[0].filename.endswith("frames_for_laws.py")
