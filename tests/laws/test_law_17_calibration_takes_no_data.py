"""Law 17: noise is calibrated from public facts; no calibration function has a data argument."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import MODELS, SVMS, clinic, fit_clinic

import privatelr.call_data
import privatelr.model_data
from privatelr.mechanisms import (
    calibration,
    candidate_choice,
    price_shares,
    problem,
    registry,
    request,
    score_histogram,
    verify,
)
from privatelr.mechanisms.calibration import gaussian_objective
from privatelr.mechanisms.stages import coefficients
from privatelr.results.release_files import release_file

FILES = [found.name for found in pkgutil.iter_modules(calibration.__path__)]
FORMULAS = (
    *(importlib.import_module(f"{calibration.__name__}.{name}") for name in FILES),
    verify,
    problem,
)
DATA_TYPES = ("Rows", "Array", "DataFrame", "Series", "Design", "Any")


def check_signatures(functions):
    for function in functions:
        for parameter in inspect.signature(function).parameters.values():
            said = str(parameter.annotation)
            assert not any(name in said for name in DATA_TYPES), (function, parameter)
            assert said != "<class 'inspect._empty'>" or parameter.name == "self"


def check_same_calibration(frames, **options):
    releases = [fit_clinic(frame, **options).release for frame in frames]
    for release in releases:
        assert release.calibration == releases[0].calibration
        assert (release.moments is None) == ("spend" not in options)
        if release.moments is not None:
            assert release.moments.calibration == releases[0].moments.calibration


def public_functions():
    found = [
        coefficients.calibrate,
        registry.calibrate_all,
        price_shares.divide,
        price_shares.usual_shares,
    ]
    found += [score_histogram.calibrate_histogram, candidate_choice.calibrate_choice]
    for module in FORMULAS:
        members = [inspect.unwrap(member) for member in vars(module).values() if callable(member)]
        found += [f for f in members if inspect.isfunction(f) and f.__module__ == module.__name__]
    return found


def frames():
    frame = clinic()
    huge = frame.assign(age=1e9, dose=-1e9)
    return [frame, huge, frame.assign(y=1.0), frame.assign(age=np.nan), clinic(seed=9)]


def test_law():
    assert len(public_functions()) > 30
    check_signatures(public_functions())
    check_same_calibration(frames())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("options", [{}, {"op": False}, {"delta": 1e-6}, {"eps": 0}], ids=str)
def test_law_of_moments(model, options):
    check_same_calibration(frames(), model=model, spend="inference", **options)


@pytest.mark.parametrize("model", SVMS.values(), ids=SVMS)
@pytest.mark.parametrize("options", [{}, {"op": False}, {"delta": 1e-6}], ids=str)
def test_law_of_hinges(model, options):
    check_same_calibration(frames(), model=model, **options)


def test_formulas_import_neither_arrays_nor_frames():
    for module in (*FORMULAS, request, registry, coefficients):
        allowed = {"np"} if module is gaussian_objective else set()  # adds up logarithms
        assert not {"np", "pd", "numpy", "pandas"} & set(vars(module)) - allowed


def test_planted_argument_is_caught():
    def calibrate(n: int, x: np.ndarray) -> float:
        return float(np.linalg.norm(x)) / n

    calibrate.__annotations__ = {"n": "int", "x": "FloatArray", "return": "float"}
    with pytest.raises(AssertionError):
        check_signatures([calibrate])


def test_planted_bug_is_caught(monkeypatch):
    """A radius read off the data, as in PSI and DPrivStats."""
    honest = privatelr.model_data.plan_design

    def measured(formula, frame, schema):
        spec = honest(formula, frame, schema)
        longest = float(np.nanmax(np.abs(np.asarray(frame["age"])), initial=1.0))
        return replace(spec, bound=min(spec.bound, longest / 90))

    monkeypatch.setattr(privatelr.model_data, "plan_design", measured)
    monkeypatch.setattr(release_file, "require_writable", lambda spec: None)  # it sees the bug, too
    with pytest.raises(AssertionError):
        check_same_calibration(frames())


def test_planted_share_is_caught(monkeypatch):
    """Shares that follow the data: more for inference where the classes are uneven."""
    honest = privatelr.call_data.read_source

    def tuned(formula, data, *given):
        seen["positives"] = float(data["y"].mean())
        return honest(formula, data, *given)

    def usual_shares(target, loss):
        share = 0.4 if seen["positives"] > 0.9 else 0.3
        return {"coefficients": 1 - share, "inference": share}

    seen = {}
    monkeypatch.setattr(privatelr.call_data, "read_source", tuned)
    monkeypatch.setattr(price_shares, "usual_shares", usual_shares)
    with pytest.raises(AssertionError):
        check_same_calibration(frames(), spend="inference")
