"""`fit.private_auc`: an area by smooth sensitivity or by counts, its price, and what it tells."""

import pickle
import warnings

import numpy as np
import pytest
from frames_for_laws import SCHEMA, FixedRandomness, clinic_by_age, replaced

from privatelr import (
    ZCDP,
    ApproxDP,
    ArgumentError,
    GuaranteeError,
    Ledger,
    NonPrivate,
    PrivacyWarning,
    PureDP,
    dplpsvm,
    dplr,
    dpsvm,
    to_zcdp,
)
from privatelr.mechanisms import smooth_area
from privatelr.privacy.noise import SeededRandomness
from privatelr.results import predict
from privatelr.results.answers import scored_records

FORMULA, MANY = "y ~ age + dose + smoker", 4000
MARK = 61.12345678901234
LARGE, SMALL = 3.0, 0.02
"""Prices at which the area is released by its smooth sensitivity, and by counts."""


@pytest.fixture(scope="module")
def frame():
    return clinic_by_age(MANY)


@pytest.fixture(scope="module")
def fit(frame):
    return dplr(FORMULA, frame, eps=4.0, **SCHEMA)


def by_sensitivity(answer):
    return "smooth sensitivity" in answer.mechanism


@pytest.mark.parametrize("model", [dplr, dpsvm, dplpsvm])
def test_it_is_near_the_exact_area(model, frame):
    fit = model(FORMULA, frame, eps=8.0, **SCHEMA)
    found = fit.private_auc(frame, eps=100.0)
    assert by_sensitivity(found)
    assert float(found) == pytest.approx(fit.diagnostics.c_index, abs=1e-3)
    assert found.binning_sd == 0
    assert found.sampling_sd == pytest.approx(
        fit.private_roc(frame, 100).tidy().sampling_sd[0], 0.3
    )
    assert found.std_error == pytest.approx(np.hypot(found.sampling_sd, found.privacy_sd))


def test_public_facts_decide(fit, frame):
    assert by_sensitivity(fit.private_auc(frame, eps=LARGE))
    few = fit.private_auc(frame, eps=SMALL)
    assert not by_sensitivity(few)
    assert few.binning_sd > 0
    one_class = frame.assign(y=1.0)
    assert by_sensitivity(fit.private_auc(one_class, eps=LARGE))
    assert by_sensitivity(fit.private_auc(frame[:700], eps=LARGE, smaller_class=0.4))
    assert not by_sensitivity(fit.private_auc(frame[:700], eps=LARGE, smaller_class=0.005))
    assert not by_sensitivity(fit.private_auc(frame, eps=1e-8))


@pytest.mark.parametrize("eps", [LARGE, SMALL])
def test_the_ledger_is_charged_first(fit, frame, eps, monkeypatch):
    ledger, seen, real = Ledger(1.5 * eps), [], predict.linear_predictors

    def watched(model, data):
        if data is frame:
            seen.append(len(ledger.entries))
        return real(model, data)

    monkeypatch.setattr(predict, "linear_predictors", watched)
    found = fit.private_auc(frame, eps=eps, ledger=ledger)
    with pytest.raises(GuaranteeError):
        fit.private_auc(frame, eps=eps, ledger=ledger)
    assert seen == [1]
    assert found.entry == ledger.entries[0]
    assert ledger.spent() == pytest.approx(eps)


def test_its_page_tells_the_price_and_its_pickle_no_record(fit, frame):
    found = fit.private_auc(frame.assign(age=MARK), eps=LARGE)
    page = " ".join(str(found).split())
    assert "epsilon = 3 (pure); neighbours replace one of n = 4000" in page
    assert "epsilon = 4 (pure), paid apart" in page
    assert f"{found.value:.5f}" in page
    assert max(map(len, str(found).splitlines())) <= 79
    assert "smooth sensitivity" in found._repr_html_()
    kept = pickle.dumps(found)
    assert np.float64(MARK).tobytes() not in kept
    assert float(pickle.loads(kept)) == found.value
    assert found.guarantee == PureDP(LARGE)


def test_a_seed_voids_it(fit, frame):
    for eps in (LARGE, SMALL):
        with pytest.warns(PrivacyWarning, match="seed") as caught:
            found = fit.private_auc(frame, eps, seed=1)
        assert caught[0].filename == __file__
        assert isinstance(found.guarantee, NonPrivate)
        assert "not private" in str(found)
        with pytest.warns(PrivacyWarning, match="seed"):
            assert float(fit.private_auc(frame, eps, seed=1)) == float(found)


@pytest.mark.parametrize("y", [0.0, 1.0, np.nan])
@pytest.mark.parametrize("eps", [LARGE, SMALL])
def test_one_class_takes_the_same_path(fit, frame, y, eps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit.private_auc(frame.assign(y=y), eps=eps)
        assert str(found)
    if by_sensitivity(found):
        assert found.privacy_sd > 0.2  # of a guess


def test_noise_is_drawn_anew(fit, frame):
    assert len({float(fit.private_auc(frame, eps=LARGE)) for _ in range(3)}) == 3


ODD = [{"age": np.nan}, {"age": np.inf}, {"y": np.nan}, {"y": 7.0}, {"smoker": "never"}]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("eps", [LARGE, SMALL])
def test_odd_values_of_a_record_show_nowhere_else(fit, frame, odd, eps, monkeypatch):
    """Under the same noise the area moves by a little, as the sizes of the classes do."""
    monkeypatch.setattr(scored_records, "SystemRandomness", FixedRandomness)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (fit.private_auc(f, eps) for f in (frame, replaced(frame, 0, **odd)))
    assert abs(one.value - other.value) < 0.01
    assert (one.mechanism, one.guarantee, one.nobs) == (
        other.mechanism,
        other.guarantee,
        other.nobs,
    )


def test_records_that_cannot_be_used_are_in_no_class(frame, monkeypatch):
    seen, real = [], smooth_area.exact_area
    monkeypatch.setattr(
        smooth_area, "exact_area", lambda *given: seen.append(real(*given)) or seen[-1]
    )
    fit = dplr(FORMULA, frame, eps=4.0, **SCHEMA)
    odd = frame.assign(age=frame.age.where(np.arange(MANY) % 4 > 0))
    fit.private_auc(odd, eps=LARGE)
    assert sum(seen[0][1:]) == 3 * MANY / 4
    rest = odd[odd.age.notna()]
    fit.private_auc(rest, eps=LARGE)
    assert seen[0] == seen[1]


def test_outcomes_beside_the_data_and_partitions(fit, frame):
    beside = fit.private_auc(frame.drop(columns="y"), eps=LARGE, response=frame.y)
    assert by_sensitivity(beside)
    frames = pytest.importorskip("dask.dataframe")
    parts = fit.private_auc(frames.from_pandas(frame, npartitions=3), eps=LARGE)
    assert not by_sensitivity(parts)
    assert float(parts) == pytest.approx(fit.diagnostics.c_index, abs=0.02)


@pytest.mark.parametrize("rho", [0.001, 1.0])
def test_a_rho_buys_the_pure_epsilon_that_implies_it(fit, frame, rho):
    found = fit.private_auc(frame, ZCDP(rho))
    assert by_sensitivity(found) is (rho == 1.0)
    assert found.guarantee == ZCDP(rho)
    assert to_zcdp(found.release.calibration.target).rho == pytest.approx(rho)


def test_wrong_arguments_are_refused(fit, frame):
    for bad in (0, 0.7, "few", None):
        with pytest.raises(ArgumentError, match="smaller_class"):
            fit.private_auc(frame, smaller_class=bad)
    with pytest.raises(GuaranteeError, match="no use for a delta"):
        fit.private_auc(frame, ApproxDP(1.0, 1e-6))
    with pytest.raises(ArgumentError, match="empty"):
        fit.private_auc(frame[:0])
    with pytest.raises(GuaranteeError, match="eps=0"):
        fit.private_auc(frame, 0)


def test_at_ten_thousand_records_it_is_twice_as_near_as_judged_of_a_curve():
    """On average over seeded draws."""
    many, source = clinic_by_age(10_000), SeededRandomness(5)
    link, label = many.age.to_numpy(), np.where(many.y > 0, 1.0, -1.0)
    exact, *_ = smooth_area.exact_area(link, label)
    for epsilon, judged in ((0.5, 0.0033), (1.0, 0.0017)):
        made = smooth_area.calibrate_area(10_000, PureDP(epsilon))
        found = [smooth_area.release_area(link, label, made, source).area for _ in range(300)]
        assert np.sqrt(np.mean((np.array(found) - exact) ** 2)) < judged / 2
