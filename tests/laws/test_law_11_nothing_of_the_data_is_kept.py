"""Law 11: under one fixed draw, changing a record changes what was paid for and nothing else."""

import copy
import io
import pickle
import warnings
from contextlib import redirect_stdout
from dataclasses import replace

import numpy as np
import pytest
from frames_for_laws import MODELS, clinic, fit_clinic, fixed_noise, replaced, scores, stored

import privatelr.call_data
from privatelr import ZCDP, GuaranteeError, ReleaseFileError
from privatelr.mechanisms import stages
from privatelr.mechanisms.stages.histogram import ScoreScale
from privatelr.results.answers import scored_records
from privatelr.results.release_files import release_file

MARK = 61.12345678901234
ROC = {"coefficients": 0.75, "roc": 0.25}


def unpaid(fit, printed):
    """All that a user can see or store, with what was paid for blanked out."""
    blank = blanked(fit)
    page, html = str(blank), blank._repr_html_()
    tables = blank.tidy().to_csv() + blank.glance().to_csv()
    moments = fit.release.moments
    calibrations = str(fit.calibration), moments and str(moments.calibration)
    return stored(blank), repr(blank), page, html, tables, calibrations, printed


def blanked(fit):
    """The fit with zeros in the place of the coefficients, and of what else was paid for."""
    moments, counts = fit.release.moments, fit.release.histogram
    if moments is not None:
        moments = replace(moments, values=np.zeros_like(moments.values))
    if counts is not None:  # the bins follow from the coefficients, and from nothing else
        assert counts.scale == scored_records.score_scale(fit)
        counts = replace(counts, counts=np.zeros_like(counts.counts))
    coef = np.zeros_like(fit.release.coef)
    release = replace(fit.release, coef=coef).having({"inference": moments, "roc": counts})
    blank = replace(fit, release=release)
    if counts is None:
        return blank
    counts = replace(counts, scale=scored_records.score_scale(blank))
    return replace(blank, release=release.having({"roc": counts}))


def run(frame, **options):
    """Fit, and collect what is printed or warned on the way."""
    output = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(output):
        warnings.simplefilter("always")
        fit = fit_clinic(frame, verbose=1, **options)
    return fit, output.getvalue() + "".join(str(w.message) for w in caught)


def check_nothing_kept(monkeypatch, frame=None, row=0, options=None, **values):
    frame = clinic() if frame is None else frame
    with fixed_noise(monkeypatch):
        first = unpaid(*run(frame, **(options or {})))
        second = unpaid(*run(replaced(frame, row, **values), **(options or {})))
    assert first == second


CHANGES = [
    {"age": MARK},
    pytest.param({"age": 1e300}, marks=pytest.mark.slow),
    {"age": np.nan},
    pytest.param({"dose": -5.0}, marks=pytest.mark.slow),
    {"smoker": "undeclared"},
    {"y": 1},
    {"y": 0},
]


@pytest.mark.parametrize("values", CHANGES, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"op": False}, {"rp_dim": 2}, {"threshold": "youden"}, {"bounds": None}, {"eps": 0}),
        *({"spend": "inference"}, {"spend": "inference", "op": False, "delta": 1e-6}),
        *({"spend": ROC, "threshold": "youden"}, {"spend": ROC, "op": False, "eps": ZCDP(0.1)}),
    ],
    ids=str,
)
def test_law(monkeypatch, values, options):
    check_nothing_kept(monkeypatch, options=options, **values)


OF_HINGES = [
    {"model": MODELS["dpsvm"]},
    {"model": MODELS["dpsvm"], "op": False, "delta": 1e-6},
    {"model": MODELS["narrow"], "threshold": "topleft", "bounds": None},
    {"model": MODELS["softplus"], "delta": 1e-6},
    {"model": MODELS["dpsvm"], "spend": "inference"},
    {"model": MODELS["dpsvm"], "spend": ROC, "delta": 1e-6},
]


@pytest.mark.slow
@pytest.mark.parametrize("values", CHANGES, ids=str)
@pytest.mark.parametrize(
    "options", OF_HINGES, ids=["huber", "output", "narrow", "softplus", "spend", "roc"]
)
def test_law_of_hinges(monkeypatch, values, options):
    check_nothing_kept(monkeypatch, options=options, **values)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_stored_fit_holds_no_value_of_the_data(model):
    frame = clinic()
    frame.loc[0, "age"] = MARK
    fit = fit_clinic(frame, row_norm=1.0, model=model, spend="inference")
    needle = np.float64(MARK).tobytes()
    for data in (stored(fit), pickle.dumps(fit, protocol=2)):
        assert needle not in data
        assert needle[::-1] not in data
        assert str(MARK).encode() not in data
    # the search works: public bounds are found
    assert np.float64(90.0).tobytes()[::-1] in stored(fit)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_diagnostics_and_learned_thresholds_stay_behind(model):
    frame = clinic()
    fit = fit_clinic(frame, threshold="youden", model=model)
    loaded = pickle.loads(stored(fit))
    np.testing.assert_array_equal(scores(loaded, frame), scores(fit, frame))
    np.testing.assert_array_equal(loaded.coef, fit.coef)
    with pytest.raises(GuaranteeError, match="not kept"):
        loaded.predict(frame, type="classes")
    with pytest.raises(GuaranteeError, match="not kept"):
        _ = loaded.diagnostics
    with pytest.raises(GuaranteeError, match="cannot be saved"):
        pickle.dumps(fit.diagnostics)
    assert set(loaded.predict(frame, type="classes", threshold=0.5)) <= {0, 1}
    assert "a saved fit does not have it" in " ".join(str(loaded).split())
    assert copy.deepcopy(fit).diagnostics is fit.diagnostics


def test_planted_bug_is_caught(monkeypatch):
    """A plan that remembers the longest row, as a scale learned from the data would be."""
    honest = privatelr.call_data.plan_design

    def curious(formula, frame, schema):
        spec = honest(formula, frame, schema)
        return replace(spec, bound=spec.bound + float(frame["dose"].max() > 4))

    monkeypatch.setattr(privatelr.call_data, "plan_design", curious)
    monkeypatch.setattr(release_file, "require_writable", lambda spec: None)  # it sees the bug, too
    frame = clinic().assign(dose=1.0)
    frame.loc[0, "dose"] = 5.0
    with pytest.raises(AssertionError):
        check_nothing_kept(monkeypatch, frame, dose=1.0)


def test_planted_warning_is_caught(monkeypatch):
    """A warning that counts."""
    honest = privatelr.call_data.read_design

    def talkative(spec, batch, *others):
        missing = int(np.isnan(batch["age"]).sum())
        if missing:
            warnings.warn(f"{missing} rows", UserWarning, stacklevel=2)
        return honest(spec, batch, *others)

    monkeypatch.setattr(privatelr.call_data, "read_design", talkative)
    with pytest.raises(AssertionError):
        check_nothing_kept(monkeypatch, age=np.nan)


def written(fit, folder):
    """The release file and the cards, with what was paid for blanked out."""
    blank = blanked(fit)
    blank.save(folder / "model.json", overwrite=True)
    return (folder / "model.json").read_bytes(), blank.card(), blank.card("html")


def check_nothing_written(monkeypatch, folder, frame=None, options=None, **values):
    frame = clinic() if frame is None else frame
    with fixed_noise(monkeypatch):
        first, _ = run(frame, **(options or {}))
        second, _ = run(replaced(frame, 0, **values), **(options or {}))
    assert written(first, folder) == written(second, folder)


@pytest.mark.slow
@pytest.mark.parametrize("values", CHANGES, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"op": False},
        {"rp_dim": 2, "bounds": None, "threshold": "youden"},
        {"model": MODELS["dpsvm"], "threshold": "youden"},
        {"spend": "inference"},
        {"spend": "inference", "eps": ZCDP(0.1), "op": False, "bounds": None},
        {"spend": ROC, "threshold": "topleft"},
    ],
    ids=["dplr", "output", "projected", "dpsvm", "spend", "spend-output", "roc"],
)
def test_release_files_and_cards(monkeypatch, tmp_path, values, options):
    check_nothing_written(monkeypatch, tmp_path, options=options, **values)


def test_a_release_file_holds_no_value_of_the_data(tmp_path):
    frame = clinic()
    frame.loc[0, "age"] = MARK
    fit = fit_clinic(frame, row_norm=1.0, spend="inference")
    fit.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text(encoding="utf-8") + fit.card() + fit.card("html")
    assert str(MARK)[:8] not in text
    assert "90.0" in text  # the search works: public bounds are found


def test_planted_bug_in_the_file_is_caught(monkeypatch, tmp_path):
    """A plan that declares as bounds what it saw."""
    honest = privatelr.call_data.plan_design

    def curious(formula, frame, schema):
        seen = (18.0, float(frame["age"].max()))
        return honest(formula, frame, replace(schema, bounds={**schema.bounds, "age": seen}))

    monkeypatch.setattr(privatelr.call_data, "plan_design", curious)
    with pytest.raises(AssertionError):
        check_nothing_written(monkeypatch, tmp_path, age=95.0)


def test_planted_notes_about_the_moments_are_caught(monkeypatch, tmp_path):
    """A grid that follows the labels, as a rounding to the precision of the data would."""
    honest = stages.matrices.release_moments

    def adaptive(rows, coef, calibration, noise, units):
        finer = calibration.grid / (1 + np.count_nonzero(rows.y > 0) % 2)
        return honest(rows, coef, replace(calibration, grid=finer), noise, units)

    monkeypatch.setattr(stages.matrices, "release_moments", adaptive)
    options, other = {"spend": "inference"}, 1 - clinic()["y"][0]
    with pytest.raises(AssertionError):
        check_nothing_kept(monkeypatch, options=options, y=other)
    # the file is read again before it is written, by a calibration that knows no labels
    with pytest.raises((AssertionError, ReleaseFileError)):
        check_nothing_written(monkeypatch, tmp_path, options=options, y=other)


def test_planted_bins_that_follow_the_scores_are_caught(monkeypatch):
    """Bins over the range of the scores, as other software makes them."""
    honest = stages.histogram.count_scores

    def adaptive(rows, release, scale, *given):
        link, _ = rows.scores(release.coef)
        return honest(rows, release, ScoreScale(float(link.mean()), float(link.std())), *given)

    monkeypatch.setattr(stages.histogram, "count_scores", adaptive)
    with pytest.raises(AssertionError, match="middle"):
        check_nothing_kept(monkeypatch, options={"spend": ROC}, age=90.0)


def test_planted_numbers_of_bins_are_caught(monkeypatch):
    """A calibration that is written with the number of positive records."""
    honest = stages.histogram.count_scores

    def talkative(rows, *given):
        counts = honest(rows, *given)
        n = counts.calibration.n + np.count_nonzero(rows.y > 0) % 2
        return replace(counts, calibration=replace(counts.calibration, n=n))

    monkeypatch.setattr(stages.histogram, "count_scores", talkative)
    other = 1 - clinic()["y"][0]
    with pytest.raises(AssertionError):
        check_nothing_kept(monkeypatch, options={"spend": ROC}, y=other)
