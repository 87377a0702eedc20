"""A new released stage is one class and one line in a table: this file has both."""

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from privatelr import (
    ZCDP,
    ApproxDP,
    Ledger,
    PureDP,
    ReleaseFileError,
    dplr,
    load,
    load_dataset,
    load_schema,
)
from privatelr.audit import neighbouring_tables, worth
from privatelr.mechanisms import (
    STAGES,
    Problem,
    StagedCalibration,
    calibrate_all,
    draw_all,
    read_request,
)
from privatelr.mechanisms.calibration.proven_noise import grid_for, laws_hiding, require_law
from privatelr.mechanisms.perturbation import rounded_sum
from privatelr.mechanisms.stages import Stage, StageCalibration
from privatelr.numerics import find_loss
from privatelr.privacy import Guarantee
from privatelr.privacy.noise import NoiseLaw, SystemRandomness
from privatelr.results.release_files import content_hash, restore

NAME = "positives"


@dataclass(frozen=True)
class PositivesCalibration(StageCalibration):
    """Noise on the number of positive records, which one record moves by one."""

    target: Guarantee
    noise: NoiseLaw
    sensitivity = 1.0

    @property
    def grid(self):
        return grid_for(self.noise)


class PositivesStage(Stage):
    name, part = NAME, "number of positive records"

    def calibrate(self, request, problem, columns, before):
        laws = laws_hiding(1.0, 1, request.target)
        law = require_law(laws, request.target, request.kinds)
        return PositivesCalibration(request.target, law)

    def release(self, calibration, rows, release, noise, expected):
        (count,) = rows.fold(lambda _x, y, _z=0.0: (np.array([np.sum(y > 0.0)], float),))
        number = rounded_sum(count, noise, calibration.grid)
        return SimpleNamespace(values=number, calibration=calibration)

    def read(self, values, calibration, release, expected):
        return SimpleNamespace(values=values, calibration=calibration)


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    monkeypatch.setitem(STAGES, NAME, PositivesStage())


SPEND = {"coefficients": 0.6, "inference": 0.3, NAME: 0.1}


def fit(eps=5.0, **options):
    public = load_schema("anes96")
    votes = load_dataset("anes96")
    return dplr("vote ~ age", votes, eps, spend=SPEND, **options, **public), votes


def test_it_is_paid_for_and_released():
    ledger = Ledger(6.0)
    found, votes = fit(ledger=ledger)
    part = found.release.parts[NAME]
    assert part.calibration.target == PureDP(0.5)
    assert ledger.spent() == pytest.approx(5.0)
    positives = np.sum(votes["vote"] == found.spec.response.levels[1])
    assert 0 < abs(part.values[0] - positives) < 100


def test_its_sentence_is_on_the_pages():
    found, _ = fit()
    card = str(found.card())
    assert "positives epsilon = 0.5" in card
    assert "spherical Laplace noise, scale 2, for epsilon = 0.5" in card
    assert "they see the estimates, the matrices for inference and the number of positive" in card
    assert "positives epsilon = 0.5" in " ".join(str(found.summary()).split())


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6}], ids=str)
def test_it_is_saved_and_loaded(tmp_path, options):
    found, _ = fit(**options)
    found.save(tmp_path / "fit.json")
    again = load(tmp_path / "fit.json")
    part, before = again.release.parts[NAME], found.release.parts[NAME]
    assert part.values.tobytes() == before.values.tobytes()
    assert part.calibration == before.calibration
    assert "the number of positive records" in again.card()
    document = json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"))
    del document["released"]["fits"][0]["inference"]
    document["sha256"] = content_hash(document)
    with pytest.raises(ReleaseFileError, match="here of 'coefficients', 'inference', 'pos"):
        restore(document)


TARGETS = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)]


def planned(target) -> StagedCalibration:
    request = read_request(target, 0, SPEND, None, True, None, "increase")
    return calibrate_all(request, Problem(5000, 2, find_loss("logistic"), 1.0))


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_it_is_drawn_and_the_audit_finds_too_little_noise(target):
    plan = planned(target)
    assert list(plan.parts) == ["coefficients", "inference", NAME]
    assert set(draw_all(plan, SystemRandomness()).others) == {"inference", NAME}
    assert 0.9 < worth.share_of_plan(plan) <= 1 + 1e-9
    own = plan.parts[NAME]
    field = "rate" if own.noise.is_pure else "sd"
    smaller = getattr(own.noise, field) * (2 if own.noise.is_pure else 0.5)
    weak = replace(own, noise=replace(own.noise, **{field: smaller}))
    assert worth.share_of_plan(plan.having({NAME: weak})) > 1


@pytest.mark.parametrize("change", [1.0, 3.0])
def test_what_it_releases_is_audited_on_long_records(monkeypatch, change):
    """The audit compares the sums of neighbouring tables with the noise that was paid for."""
    declared = {**neighbouring_tables._DECLARED, "spend": SPEND, "do_scale": False}
    monkeypatch.setattr(neighbouring_tables, "_DECLARED", declared)
    honest = PositivesStage.calibrate

    def wrong(self, request, *others):
        law = honest(self, request, *others).noise
        return PositivesCalibration(request.target, replace(law, rate=change * law.rate))

    monkeypatch.setattr(PositivesStage, "calibrate", wrong)
    case = neighbouring_tables._CASES["opposite records"]
    share = neighbouring_tables._fits(case, PureDP(4.0), {})
    assert (share > 1 + 1e-9) == (change > 1)
