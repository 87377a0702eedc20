"""What a plan says of the area under a private ROC curve, against curves of records."""

import json

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import SCHEMA

from privatelr import ZCDP, ArgumentError, GuaranteeError, dplr, plan
from privatelr.privacy.accounting import of_public_data

FORMULA, N = "y ~ age + dose", 1500
BOUNDS = {"bounds": SCHEMA["bounds"]}
SPEND = {"coefficients": 0.75, "roc": 0.25}


def records(n, seed):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(18, 90, n), rng.uniform(0, 5, n)
    chance = 1 / (1 + np.exp(-(age - 60) / 20 - (dose - 2.5) / 4))
    return pd.DataFrame({"age": age, "dose": dose, "y": rng.random(n) < chance})


@pytest.fixture(scope="module")
def pilot():
    return records(20_000, 1)


@pytest.mark.parametrize("eps", [0.05, 1.0])
def test_errors_are_those_of_releases(eps, pilot):
    """Of many releases of other records: spread by noise and by sampling."""
    expected = plan(FORMULA, n=N, eps=4.0, pilot=pilot, **BOUNDS).private_roc(eps)
    with of_public_data():
        fit = dplr(FORMULA, pilot, eps=4.0, **BOUNDS)
        exact, off = [], []
        for seed in range(60):
            sample = records(N, 100 + seed)
            exact.append(fit.private_roc(sample, eps=1e4).auc)
            off.append(fit.private_roc(sample, eps=eps).auc - exact[-1])
    assert expected.value == pytest.approx(np.mean(exact), abs=0.01)
    assert expected.sampling_sd == pytest.approx(np.std(exact), rel=0.3)
    noise = np.hypot(expected.privacy_sd, expected.binning_sd)
    assert noise == pytest.approx(np.sqrt(np.mean(np.square(off))), rel=0.35)


def test_the_page_and_the_json_have_it(pilot):
    made = plan(FORMULA, n=N, eps=1.0, spend=SPEND, **BOUNDS)
    assert made.roc.std_error == pytest.approx(
        np.linalg.norm([made.roc.sampling_sd, made.roc.privacy_sd, made.roc.binning_sd])
    )
    told = json.loads(made.to_json())
    assert told["auc_std_error"] == made.roc.std_error
    assert f"Std. Error near {made.roc.std_error:.2g}" in " ".join(str(made).split())
    without = plan(FORMULA, n=N, eps=1.0, **BOUNDS)
    assert without.roc is None
    assert json.loads(without.to_json())["auc_std_error"] is None


def test_a_later_answer_has_its_own_price_and_records():
    made = plan(FORMULA, n=N, eps=1.0, **BOUNDS)
    small, large = made.private_roc(0.2), made.private_roc(0.2, n=10 * N)
    assert large.calibration.n == 10 * N
    assert large.sampling_sd == pytest.approx(small.sampling_sd / np.sqrt(10), rel=0.05)
    assert large.privacy_sd < small.privacy_sd / 5
    assert made.private_roc(ZCDP(0.02)).calibration.target == ZCDP(0.02)
    with pytest.raises(GuaranteeError, match="0"):
        made.private_roc(0)
    with pytest.raises(ArgumentError, match="n="):
        made.private_roc(1.0, n=0.5)
