"""Law 17: noise is calibrated from public facts; no calibration function has a data argument."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import MODELS, SVMS, clinic, fit_clinic

import privatelr.call_data
from privatelr.mechanisms import (
    calibration,
    candidate_choice,
    problem,
    registry,
    request,
)
from privatelr.mechanisms.calibration import gaussian_objective
from privatelr.mechanisms.stages import coefficients, lengths, matrices, ranges
from privatelr.mechanisms.stages import histogram as histogram_stage
from privatelr.mechanisms.stages import scale as scale_stage
from privatelr.results.release_files import release_file

FILES = [found.name for found in pkgutil.iter_modules(calibration.__path__)]
FORMULAS = (
    *(importlib.import_module(f"{calibration.__name__}.{name}") for name in FILES),
    problem,
    matrices,
    scale_stage,
    histogram_stage,
    lengths,
    ranges,
)
RELEASES = {
    *("release_scale", "mean_squares", "scale_moments"),
    *("spread_to_noise", "variance_sd", "scale_map", "_with_length", "_longest_row"),
    *(
        "_map_and_longest",
        "row_map",
        "divisors",
        "release_length",
        "counts_of_lengths",
        "folded_counts",
        "likely_length",
        "_slots",
        "units_of",
        "release_ranges",
        "counts_in_cells",
        "offsets_of",
        "cells_around",
        "is_explained",
        "merged",
        "thin_numbers_of",
    ),
    *("cells_of", "counts_in", "counts_of_shares", "filled_up", "release_histogram"),
    *("count_scores", "score_counts", "matrix_units"),
}
"""Functions of stages that see rows or what was released; all others calibrate."""
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
        registry.divide,
        registry.usual_shares,
    ]
    found += [histogram_stage.calibrate_histogram, candidate_choice.calibrate_choice]
    for module in FORMULAS:
        members = [inspect.unwrap(member) for member in vars(module).values() if callable(member)]
        own = [f for f in members if inspect.isfunction(f) and f.__module__ == module.__name__]
        found += [f for f in own if f.__name__ not in RELEASES]
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


RELEASING = (scale_stage, histogram_stage, lengths, ranges, matrices)
ARRAYS = {"np", "pd", "numpy", "pandas"}


def test_formulas_import_neither_arrays_nor_frames():
    for module in (*FORMULAS, request, registry, coefficients):
        allowed = {"np"} if module is gaussian_objective else set()  # adds up logarithms
        if module not in (
            scale_stage,
            histogram_stage,
            lengths,
            ranges,
            matrices,
        ):  # these release, too
            assert not ARRAYS & set(vars(module)) - allowed


def test_formulas_next_to_a_release_use_neither_arrays_nor_frames():
    homes = {module.__name__ for module in RELEASING}
    formulas = [one for one in public_functions() if one.__module__ in homes]
    assert len(formulas) > 12
    for formula in formulas:
        assert not ARRAYS & {*formula.__code__.co_names}, formula


def test_planted_argument_is_caught():
    def calibrate(n: int, x: np.ndarray) -> float:
        return float(np.linalg.norm(x)) / n

    calibrate.__annotations__ = {"n": "int", "x": "FloatArray", "return": "float"}
    with pytest.raises(AssertionError):
        check_signatures([calibrate])


def test_planted_bug_is_caught(monkeypatch):
    """A radius read off the data, as in PSI and DPrivStats."""
    honest = privatelr.call_data.plan_design

    def measured(formula, frame, schema):
        spec = honest(formula, frame, schema)
        longest = float(np.nanmax(np.abs(np.asarray(frame["age"])), initial=1.0))
        return replace(spec, bound=min(spec.bound, longest / 90))

    monkeypatch.setattr(privatelr.call_data, "plan_design", measured)
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
    monkeypatch.setattr(registry, "usual_shares", usual_shares)
    with pytest.raises(AssertionError):
        check_same_calibration(frames(), spend="inference")
