"""The privacy loss of released choices between two frames."""

import math
from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import clinic, fit_clinic, replaced

from privatelr import ZCDP, ArgumentError, GuaranteeError, PureDP, audit, dplpsvm, dpsimplex, dpsvm

EVERY_DOOR = pytest.mark.parametrize("model", [dplpsvm, dpsimplex])
FAR = {"age": 90.0, "dose": 5.0, "smoker": "yes"}


def pair(n=60):
    frame = clinic(n=n)
    return frame, replaced(frame, 3, y=1.0 - frame["y"][3], **FAR)


@EVERY_DOOR
@pytest.mark.parametrize("eps", [2.0, PureDP(2.0), ZCDP(1.0)], ids=str)
def test_the_loss_of_a_release_is_within_its_claim(model, eps):
    first, second = pair()
    for seed in range(5):
        fit = fit_clinic(first if seed % 2 else second, model=model, eps=eps)
        loss = audit.privacy_loss(fit, first, second)
        assert loss.holds
        assert loss.found == pytest.approx(audit.privacy_loss(fit, second, first).found)
        assert "ok" in str(loss)
        assert audit.privacy_loss(fit, first, first).found == 0


def test_the_loss_is_the_ratio_of_the_chances_of_what_was_chosen():
    first, second = pair()
    fit = fit_clinic(first, model=dplpsvm, eps=4.0, rounds=1)
    option, calibration = int(fit.release.path[0]), fit.calibration
    logs = []
    for frame in (first, second):
        z = np.column_stack(
            [
                np.ones(60),
                (frame["age"] - 54) / 36,
                (frame["dose"] - 2.5) / 2.5,
                frame["smoker"] == "yes",
            ]
        ) * np.where(frame["y"] > 0, 1, -1)[:, None].astype(float)
        scores = np.append(z.mean(axis=0), -z.mean(axis=0))
        exponent = calibration.eta * scores / (2 * calibration.sensitivity)
        logs.append(exponent[option] - np.log(np.exp(exponent).sum()))
    found = audit.privacy_loss(fit, first, second).found
    assert math.isclose(found, abs(logs[0] - logs[1]), rel_tol=1e-6)


@EVERY_DOOR
def test_a_release_that_claims_too_little_is_caught(model):
    """Choices worth 200 that pose as choices worth 0.02."""
    first, second = pair()
    found = []
    for _ in range(5):
        loud = fit_clinic(first, model=model, eps=200.0, delta=0.0)
        assert audit.privacy_loss(loud, first, second).holds
        posing = replace(loud, release=replace(loud.release, guarantee=PureDP(0.02)))
        found.append(audit.privacy_loss(posing, first, second))
    assert not all(loss.holds for loss in found)
    assert any("VIOLATION" in str(loss) for loss in found)


def test_what_is_no_pair_or_no_claim_is_refused():
    first, second = pair()
    fit = fit_clinic(first, model=dpsimplex)
    with pytest.raises(ArgumentError, match="differ in 2 rows"):
        audit.privacy_loss(fit, first, replaced(second, 5, **FAR))
    with pytest.raises(ArgumentError, match="data of 59 rows: takes n=60"):
        audit.privacy_loss(fit, first.iloc[1:], second)
    with pytest.raises(GuaranteeError):
        audit.privacy_loss(fit_clinic(first, model=dplpsvm, eps=0), first, second)
    with pytest.raises(ArgumentError, match="output"):
        audit.privacy_loss(fit, first, second, output=np.zeros(4))
    assert isinstance(
        audit.privacy_loss(fit_clinic(first, model=dpsvm), first, second), audit.PrivacyLoss
    )
