"""A release file holds a fit, reads back as the same fit, and says what is wrong with it if not."""

import hashlib
import json
import math
import os
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from case_names import case_name
from frames_for_laws import SCHEMA as DECLARED
from frames_for_laws import clinic, fit_clinic, own_stages
from hypothesis import given, settings
from hypothesis import strategies as st
from results.describe import document_schema

from privatelr import (
    ZCDP,
    GuaranteeError,
    Ledger,
    PrivacyWarning,
    ReleaseFileError,
    dplr,
    load,
    load_dataset,
    load_schema,
)
from privatelr.numerics import LOSSES
from privatelr.results.release_files import (
    canonical,
    content_hash,
    fit_file,
    release_document,
    release_file,
    restore,
)
from privatelr.results.release_files import file_entries as entries
from privatelr.results.release_files.file_entries import VERSION, plain

N = 60
RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "x": RNG.uniform(0.5, 9, N),
        "z": RNG.uniform(0, 1, N),
        "flag": RNG.integers(0, 2, N) == 1,
        "f": pd.Categorical(RNG.choice(list("abc"), N)),
        "s": RNG.choice(["u", "v"], N).astype(object),
        "t": pd.Series(RNG.choice(["u", "v"], N), dtype="string"),
        "k": RNG.integers(1, 4, N),
        "one": pd.Categorical(["only"] * N),
        "y": RNG.integers(0, 2, N) == 1,
        "odd name": RNG.uniform(0, 1, N),
        "q'uo\"te": RNG.uniform(0, 1, N),
        "größe <b>": RNG.uniform(0, 1, N),
        ".": RNG.uniform(0, 1, N),
        "TRUE": RNG.uniform(0, 1, N),
    }
)
BOUNDS = {"x": (0.5, 9), "z": (0, 1)}
PARTLY_DECLARED = {**DECLARED, "bounds": {"age": (18, 90)}, "row_norm": 2.0}
TEXTS = {"s": ["u", "v"], "t": ["v", "u"]}
MODELS = [
    ("y ~ x + z", {"bounds": BOUNDS}),
    ("y ~ x * f", {"bounds": BOUNDS}),
    ("y ~ x:f - 1", {"bounds": BOUNDS}),
    ("y ~ 1", {}),
    ("f ~ x + flag", {}),
    ("flag ~ log(x) + I(x^2) + exp(z)", {"bounds": BOUNDS}),
    ("x > 3 ~ z + C(f, contr.sum)", {}),
    ("y ~ C(f, contr.helmert) + C(f, contr.poly):z", {"bounds": BOUNDS}),
    ("y ~ C(f, contr.treatment('b')) * z + factor(k, levels = c(3, 1, 2))", {}),
    ("y ~ k + s + t", {"levels": {"k": [1, 2, 3], **TEXTS}}),
    ("y ~ k", {"levels": {"k": [1.0, 2.0, 3.0]}}),
    ("y ~ flag", {"levels": {"flag": [True, False]}}),
    ("y ~ `odd name` + `q'uo\"te` + `größe <b>` + `.` + `TRUE`", {}),
    ("s == 'u' ~ I(t == 'v') + I(one == 'only') + z", {"levels": TEXTS}),
    ("y ~ x - x + (z + f)^2 - z:f", {}),
    ("x > 3 ~ pmin(x, 4) + ifelse(z > .5, x, 0)", {"bounds": BOUNDS}),
    ("y ~ exp(x)", {"bounds": {"x": (1000, 2000)}, "row_norm": 2.0}),
    ("y ~ x + z", {"bounds": BOUNDS, "row_norm": 0.4, "intercept_scale": 1.5}),
    ("y ~ x + z + f", {"rp_dim": 2}),
    ("y ~ k + x + f:k + z", {"bounds": BOUNDS}),
    ("y ~ log(x) + z - 1", {"bounds": {"z": (0, 1)}, "row_norm": 2.5}),
    ("y ~ x + f", {"bounds": None, "rp_dim": 2}),
    ("k ~ x", {"levels": {"k": [1, 2]}}),
    ("f ~ . - one", {"levels": TEXTS}),
    ("y ~ x", {"bounds": {**BOUNDS, "y": (0, 1)}, "threshold": "youden"}),
]


def check_same(loaded, fit, data):
    """Nothing that a user can see or compute differs, to the last bit."""
    for type in ("link", "probabilities"):
        pd.testing.assert_series_equal(
            loaded.predict(data, type=type), fit.predict(data, type=type), check_exact=True
        )
    cut = {"threshold": 0.5} if isinstance(fit.threshold, str) else {}
    pd.testing.assert_series_equal(
        loaded.predict(data, type="classes", **cut), fit.predict(data, type="classes", **cut)
    )
    assert str(replace(loaded, origin=None)) == str(replace(fit, _diagnostics=None))
    assert repr(loaded) == repr(fit)
    for table in ("tidy", "glance"):
        pd.testing.assert_frame_equal(
            getattr(loaded, table)(), getattr(fit, table)(), check_exact=True
        )
    assert loaded.guarantee == fit.guarantee
    assert loaded.calibration == fit.calibration
    assert loaded.threshold == fit.threshold
    assert loaded.release.entry == fit.release.entry
    assert loaded.release.coef.tobytes() == fit.release.coef.tobytes()
    assert (loaded.release.moments is None) == (fit.release.moments is None)
    if fit.release.moments is not None:
        found, true = loaded.release.moments, fit.release.moments
        assert found.calibration == true.calibration
        assert found.values.tobytes() == true.values.tobytes()
    assert not loaded.has_diagnostics


def check_round_trip(fit, data, path):
    fit.save(path, overwrite=True)
    loaded = load(path)
    check_same(loaded, fit, data)
    first = path.read_bytes()
    loaded.save(path, overwrite=True)
    assert path.read_bytes() == first
    return json.loads(first)


@pytest.mark.parametrize(("formula", "options"), MODELS, ids=lambda x: str(x)[:40])
def test_every_model_reads_back(tmp_path, formula, options):
    fit = dplr(formula, FRAME, **options)
    check_round_trip(fit, FRAME, tmp_path / "model.json")


def test_a_private_scale_of_entries_above_one_reads_back(tmp_path, monkeypatch):
    """A constant column of size 4 whose noise is small: its mean is far above that of a number."""
    own_stages(monkeypatch)
    frame = pd.DataFrame({"f": ["e"] * 60, "x": np.linspace(-1, 1, 60), "y": [0, 1] * 30})
    declared = {"bounds": {"x": (-1, 1), "y": (0, 1)}, "levels": {"f": list("abcde")}}
    formula = "y ~ x + C(f, contr.helmert)"
    fit = dplr(formula, frame, eps=ZCDP(1e4), do_scale="private", **declared)
    assert fit.release.scale.values.max() > 20
    check_round_trip(fit, frame, tmp_path / "model.json")


@settings(max_examples=25)
@given(
    percent=st.integers(1, 99),
    eps=st.one_of(st.floats(1e-6, 50), st.floats(1e-6, 9).map(ZCDP)),
    formula=st.sampled_from(["y ~ 1", "y ~ dose - 1", "y ~ age * smoker"]),
)
def test_any_price_in_any_shares_reads_back(percent, eps, formula):
    """Also prices of so many digits that floats cannot divide them exactly."""
    shares = {"coefficients": percent / 100, "inference": (100 - percent) / 100}
    fit = dplr(formula, clinic(), eps=eps, spend=shares, **DECLARED)
    document = json.loads(json.dumps(release_document(fit)))
    VALIDATOR.validate(document)
    found = restore(document)
    assert found.guarantee == fit.guarantee
    assert found.release.moments.calibration == fit.release.moments.calibration
    assert release_document(found) == document


def test_a_reader_without_the_package_finds_the_matrices(tmp_path):
    """By what the schema says about the entry, and nothing else."""
    fit = fit_clinic(clinic(), spend="inference")
    fit.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    (numbers,), stage = document["released"]["fits"], document["derived"]["stages"]["inference"]
    d = len(numbers["coefficients"])
    values = iter(numbers["inference"])
    for name, scale in (("curvature", 1.0), ("scores", stage["balance"])):
        matrix = np.zeros((d, d))
        for i in range(d):
            for k in range(i, d):
                found = next(values) / scale / (1.0 if k == i else math.sqrt(2.0))
                matrix[i, k] = matrix[k, i] = found
        np.testing.assert_allclose(matrix, getattr(fit.release.moments, name), rtol=1e-14)
    assert not [*values]
    assert stage["noise"]["columns"] == d


# what `parse_formula` cannot read back are backticks, halves of characters and its own keys
NAMES = st.text(
    st.characters(exclude_characters="`", exclude_categories=["Cs", "Co"]), min_size=1, max_size=8
)
LEVELS = st.one_of(
    st.lists(
        NAMES.filter(lambda name: not name.startswith("__")), min_size=2, max_size=4, unique=True
    ),
    st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=4, unique=True),
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=4, unique=True),
)


@settings(max_examples=30)
@given(
    names=st.lists(NAMES, min_size=2, max_size=4, unique=True).filter(lambda n: "y" not in n),
    levels=LEVELS,
    low=st.floats(-1e6, 1e6),
    width=st.floats(0.1, 1e6),
    joint=st.sampled_from(["+", "*", ":"]),
    seed=st.integers(0, 99),
)
def test_any_names_levels_and_bounds(names, levels, low, width, joint, seed):
    rng = np.random.default_rng(seed)
    factor, *numeric = names
    data = {name: rng.uniform(low, low + width, 20) for name in numeric}
    data[factor] = pd.Categorical([levels[i] for i in rng.integers(0, len(levels), 20)], levels)
    frame = pd.DataFrame({**data, "y": rng.integers(0, 2, 20)})
    terms = f" {joint} ".join(f"`{name}`" for name in names)
    bounds = {numeric[0]: (low, low + width)}
    declared = {"y": [0, 1], factor: levels}
    fit = dplr(f"y ~ {terms}", frame, bounds=bounds, row_norm=1.0, levels=declared)
    document = json.loads(json.dumps(release_document(fit)))
    VALIDATOR.validate(document)
    loaded = restore(document)
    check_same(
        replace(fit, spec=loaded.spec, release=loaded.release, _diagnostics=None), fit, frame
    )


def test_a_charged_ledger_is_on_record(tmp_path):
    ledger = Ledger(4.0, 1e-6)
    fit = fit_clinic(clinic(), eps=ZCDP(0.02), ledger=ledger.part("first half"))
    document = check_round_trip(fit, clinic(), tmp_path / "model.json")
    assert document["ledger"]["part"] == "first half"
    VALIDATOR.validate(document)
    assert len(document["ledger"]["events"]) == 2
    both = fit_clinic(clinic(), spend="inference", eps=2.0, ledger=ledger)
    document = check_round_trip(both, clinic(), tmp_path / "model.json")
    assert document["ledger"]["guarantee"] == document["guarantee"]
    assert document["guarantee"]["epsilon"] == 2.0
    assert [event["epsilon"] for event in document["ledger"]["events"]] == [1.3, 0.7]


def test_nothing_of_the_data_and_no_learned_value_is_in_the_file(tmp_path):
    frame = clinic()
    frame.loc[0, "age"] = 61.12345678901234
    fit = fit_clinic(frame, threshold="youden")
    fit.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text(encoding="utf-8")
    learned = [fit.diagnostics.youden, fit.diagnostics.c_index, 61.12345678901234]
    told = [repr(float(value)) for value in learned]
    # a round number such as 1.0 is in every file
    assert not [value for value in told if len(value) > 6 and value in text]
    assert repr(90.0) in text  # the search works: a public bound is found
    assert json.loads(text)["call"]["threshold"] == "youden"


def test_scaling_by_the_data_is_not_written(tmp_path):
    with pytest.warns(PrivacyWarning, match="do_scale"):
        fit = fit_clinic(clinic(), do_scale=True)
    for view in (lambda: fit.save(tmp_path / "model.json"), fit.card):
        with pytest.raises(GuaranteeError, match=r"do_scale=True.*declare bounds="):
            view()
    assert list(tmp_path.iterdir()) == []


def test_what_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ReleaseFileError, match=r"Interval.*levels="):
        plain((0, pd.Interval(0, 3)))
    fit = fit_clinic(clinic())
    endless = replace(fit, release=replace(fit.release, coef=fit.release.coef * np.inf))
    said = r"model\.json' was not written: a released number is not finite\.$"
    with pytest.raises(ReleaseFileError, match=said):
        endless.save(tmp_path / "model.json", overwrite=True)
    assert list(tmp_path.iterdir()) == []


# -- the file --------------------------------------------------------------------------------

SCHEMA = json.loads((files("privatelr.results") / "release.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_one_and_knows_every_loss():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(document_schema())) == SCHEMA
    plain, families = SCHEMA["$defs"]["loss"]["oneOf"]
    assert plain["enum"] == [name for name, loss in LOSSES.items() if not loss.parameters]
    named = families["properties"]["name"]["enum"]
    assert named == [n for n, loss in LOSSES.items() if loss.parameters] + ["worst-margins"]
    for name in named[:-1]:
        assert {"name", *LOSSES[name].parameters} <= set(families["properties"])


def test_the_hash_can_be_computed_without_the_package(tmp_path):
    fit_clinic(clinic()).save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    stated = document.pop("sha256")
    spelled = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(spelled.encode()).hexdigest() == stated


def test_saving_replaces_the_file_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    path.write_text("before", encoding="utf-8")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            fit_clinic(clinic()).save(path, overwrite=True)
    assert path.read_text(encoding="utf-8") == "before"
    fit_clinic(clinic()).save(str(path), overwrite=True)
    assert load(str(path)).nobs == 40
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.json"]


# -- what is wrong with a file ---------------------------------------------------------------

DOCUMENT = json.loads(
    json.dumps(
        release_document(
            dplr("Species != 'setosa' ~ .", load_dataset("iris"), **load_schema("iris"))
        )
    )
)


def changed(*path, to, document=DOCUMENT):
    """The document with one entry changed and the hash made right again."""
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to(place[path[-1]]) if callable(to) else to
    copy["sha256"] = content_hash(copy)
    return copy


def longer(value):
    return [*value, value[-1]]


DESIGN = ("call", "design")
FORMULA = DOCUMENT["call"]["design"]["formula"]
NUMBERS = ("released", "fits", 0)
SHARED = ("released", "shared")
STAGES = ("derived", "stages")
WRONG = [
    (("format",), "a novel", "not a release of privatelr"),
    (("version",), VERSION - 1, f"version {VERSION - 1} of its format.* {VERSION} alone"),
    (("version",), VERSION + 1, f"version {VERSION + 1} of its format"),
    (("version",), str(VERSION), "version '"),
    (("version",), True, "version True"),
    (("kind",), "novel", "kind takes one of fit"),
    (("kind",), "roc", "call"),
    (("notice",), "covered by angels", "notice"),
    (("written_by", "numpy"), 2, "written_by"),
    (("written_by",), {"privatelr": "3"}, "entries 'privatelr' and 'python'"),
    (("written_by", "a\nb"), "1", "printable"),
    (("written_by", "numpy"), "1" * 201, "<= 200"),
    (("guarantee", "epsilon"), 0.5, "the noise was made for epsilon = 1"),
    (("guarantee", "kind"), ["pure"], "guarantee: kind"),
    (("guarantee", "neighbours"), "ADD_ONE", "guarantee"),
    (("guarantee",), {"kind": "zcdp", "rho": 1e-9, "neighbours": "REPLACE_ONE"}, "made for"),
    (("guarantee",), {"kind": "none", "reason": "eps = 0.1", "neighbours": "REPLACE_ONE"}, "void"),
    (
        ("guarantee",),
        {"kind": "none", "reason": "void: \n", "neighbours": "REPLACE_ONE"},
        "printable",
    ),
    (("randomness",), "seed", "randomness"),
    (("ledger",), {}, "ledger"),
    (("call", "n"), 140, "derived.*the other entries give"),
    (("call", "n"), 150.0, "call.n"),
    (("call", "n"), 10**17, "call.n"),
    (("call", "lambda"), lambda x: 2 * x, "derived.*the other entries give"),
    (("call", "lambda"), lambda x: x / 100, "call: "),
    (("call", "lambda"), 0, "call: "),
    (("call", "lambda_origin"), "as given\n\nPromise: more", "printable"),
    (("call", "lambda_origin"), "as given\x1b[2J", "printable"),
    (("call", "promise", "epsilon"), 0.9, "made for epsilon = 0.9"),
    (("call", "promise", "epsilon"), 1e300, "eps=1e"),
    (("call", "promise", "epsilon"), -1, "above 0"),
    (("call", "loss"), "hinge", "loss takes one of 'logistic'"),
    (("call", "loss"), "huber", "multiples of the grid"),
    (("call", "loss"), {"name": "huber", "h": 0.7}, "h takes a number from 0.0001 "),
    (("call", "loss"), {"name": "huber", "h": True}, "call.loss"),
    (("call", "loss"), {"name": "huber", "h": 0.5, "k": 1}, "loss"),
    (("call", "placement"), "input", "placement"),
    (("call", "placement"), "output", "multiples of the grid"),
    (("call", "analysis"), 3, "analysis"),
    (("call", "analysis"), "one-log", "derived|call: "),
    (("call", "shares"), "all", "shares"),
    (("call", "shares"), [["roc", 1.0]], "share for the coefficients"),
    (("call", "shares"), [["coefficients", 0.9], ["roc", 0.1]], "grid|that are paid for"),
    (("call", "shares"), [["coefficients", 1.0]] * 2, "call.shares"),
    (("call", "laws"), ["GaussianNoise"], "call: "),
    (("call", "laws"), ["uniform"], "laws"),
    (("call", "scaled"), True, "that are paid for"),
    (("call", "threshold"), 1.5, "from 0 to 1"),
    (("call", "threshold"), "best", "threshold"),
    ((*DESIGN, "formula"), "Species ~ Sepal.Length", "design"),
    ((*DESIGN, "formula"), FORMULA + "+ Sepal.Area", "columns that the formula reads"),
    ((*DESIGN, "formula"), FORMULA + " )", "design"),
    ((*DESIGN, "formula"), FORMULA + "  ", "design.formula"),
    ((*DESIGN, "formula"), None, "design.formula"),
    ((*DESIGN, "variables", 1, "bounds"), [4.0, 9.0], "derived"),
    ((*DESIGN, "variables", 1, "bounds"), [8.0, 4.0], "lo < hi"),
    ((*DESIGN, "variables", 1, "bounds"), [4.0], "bounds"),
    ((*DESIGN, "variables", 1, "kind"), "text", "kind is .text."),
    ((*DESIGN, "variables", 0, "levels"), ["setosa", None], "levels\\[1\\]"),
    ((*DESIGN, "variables", 0, "levels"), ["a", "b"], "not one of its levels"),
    ((*DESIGN, "variables"), longer, "columns that the formula reads"),
    ((*DESIGN, "several_classes"), True, "levels|classes"),
    ((*DESIGN, "intercept_scale"), 0.25, "derived"),
    ((*DESIGN, "intercept_scale"), None, "intercept_scale"),
    ((*DESIGN, "intercept_scale"), -0.5, "intercept_scale"),
    ((*DESIGN, "row_norm"), 0.1, "derived|row_norm"),
    ((*DESIGN, "projection"), [], "projection|columns"),
    ((*DESIGN, "projection"), [[1.0]] * 4, "takes 2 numbers"),
    ((*DESIGN, "projection"), [[1.0] * 5] * 4, "4 rows"),
    (("derived", "response"), "Species: anything", "derived.response"),
    (("derived", "names", 1), "Sepal.Width", r"names\[1\]"),
    (("derived", "names"), longer, "derived.names"),
    (("derived", "problem", "radius"), 1.0, "problem.radius"),
    (("derived", "fits", 0, "user_units", 1), 7.0, "user_units"),
    (("derived", "fits", 0, "user_units", 1), None, "user_units"),
    ((*STAGES, "coefficients", "noise", "rate"), lambda r: r * (1 + 1e-8), "noise.rate"),
    ((*STAGES, "coefficients", "noise", "kind"), "GaussianNoise", "noise.kind"),
    ((*STAGES, "coefficients", "shield", "rate"), lambda r: 1e3 * r, "shield.rate"),
    ((*STAGES, "coefficients", "tau"), 0.0, "tau"),
    ((*STAGES, "coefficients", "grid"), 1.0, "grid"),
    ((*STAGES, "coefficients", "target", "epsilon"), 0.5, "target.epsilon"),
    ((*NUMBERS, "coefficients"), longer, "takes 5 numbers|derived|width|columns"),
    ((*NUMBERS, "coefficients", 0), math.pi, "multiples of the grid"),
    ((*NUMBERS, "coefficients", 0), "1", r"\[...\]"),
    (("released", "fits"), longer, "takes 1 fits"),
]


PARTIAL = json.loads(
    json.dumps(release_document(dplr("y ~ dose + age + smoker:dose", clinic(), **PARTLY_DECLARED)))
)
INFERRED = json.loads(
    json.dumps(
        release_document(
            dplr("y ~ age + dose", clinic(), spend="inference", ledger=Ledger(1.0), **DECLARED)
        )
    )
)
ROC = {"coefficients": 0.75, "roc": 0.25}
SCORED = json.loads(
    json.dumps(release_document(fit_clinic(clinic(), eps=4.0, spend=ROC, ledger=Ledger(9.0))))
)
with pytest.MonkeyPatch.context() as patched:
    own_stages(patched)
    STANDARDISED = json.loads(
        json.dumps(release_document(fit_clinic(clinic(), do_scale="private", eps=50.0, delta=1e-6)))
    )
OTHERS = [
    (PARTIAL, (*DESIGN, "row_norm"), 2.5, "multiples of the grid|derived"),
    (PARTIAL, (*DESIGN, "row_norm"), 0.0, "row_norm"),
    (PARTIAL, ("derived", "problem", "blocks", 1, "norm"), "l1", "blocks"),
    (PARTIAL, ("derived", "problem", "blocks", 1, "bound"), 1.0, "blocks"),
    (INFERRED, (*NUMBERS, "inference"), {}, "Expected `array`"),
    (INFERRED, (*NUMBERS, "inference"), longer, "inference takes 12 numbers"),
    (INFERRED, (*NUMBERS, "inference", 7), 0.1, "multiples of the grid"),
    (INFERRED, (*NUMBERS, "inference", 7), 2.0**40, "rows and noise make no such numbers"),
    (INFERRED, (*NUMBERS, "inference", 7), "0", "float"),
    (INFERRED, ("call", "shares"), [["coefficients", 1.0]], "that are paid for"),
    (
        INFERRED,
        ("call", "shares"),
        [["coefficients", 0.9], ["inference", 0.1]],
        "multiples of the grid",
    ),
    (INFERRED, ("guarantee", "epsilon"), 0.65, "the noise was made for epsilon = 1 "),
    (INFERRED, ("guarantee", "epsilon"), 0.9999999999, "the noise was made for epsilon = 1 "),
    (INFERRED, ("guarantee", "epsilon"), 1.1, "the noise was made for epsilon = 1 "),
    (INFERRED, (*STAGES, "inference", "noise", "rate"), lambda r: 1.01 * r, "noise.rate"),
    (INFERRED, (*STAGES, "inference", "balance"), 0.5, "balance"),
    (INFERRED, ("ledger", "guarantee", "epsilon"), 0.65, "ledger"),
    (INFERRED, ("ledger", "part"), "", "ledger: part='': part takes a name"),
    (INFERRED, ("ledger", "events"), lambda e: e[:1], "ledger"),
    (INFERRED, ("ledger", "events", 1, "epsilon"), 0.1, "ledger"),
    (SCORED, (*NUMBERS, "roc"), longer, "takes 21 numbers"),
    (SCORED, (*NUMBERS, "roc", 0), 0.5, "roc takes multiples"),
    (SCORED, (*STAGES, "roc", "noise", "rate"), lambda rate: 2 * rate, "noise.rate"),
    (SCORED, (*STAGES, "roc", "bins"), 11, "bins"),
    (SCORED, ("ledger", "events", 1, "epsilon"), lambda epsilon: epsilon / 2, "ledger"),
    (STANDARDISED, (*SHARED, "scale", 0), lambda x: x + 2.0**-9, "derived"),
    (STANDARDISED, (*SHARED, "scale"), longer, "scale takes [0-9]+ numbers"),
    (STANDARDISED, (*SHARED, "scale", 0), math.pi, "multiples of the grid"),
    (STANDARDISED, (*SHARED, "scale"), None, "Expected `array`"),
    (STANDARDISED, ("call", "scaled"), False, "that are paid for"),
    (STANDARDISED, (*STAGES, "scale", "noise", "sd"), lambda sd: sd / 2, "noise.sd"),
]


def refusal(path, data):
    path.write_bytes(data)
    with pytest.raises(ReleaseFileError) as caught:
        load(path)
    message = str(caught.value)
    assert path.name in message
    assert message.endswith(".")
    assert "\n" not in message
    assert not re.search(r"[a-z]\. [A-Z]", message)
    assert caught.value.__cause__ is None
    return message


def test_the_document_itself_is_right(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    assert load(tmp_path / "model.json").nobs == 150


@pytest.mark.parametrize(("place", "to", "words"), WRONG, ids=case_name)
def test_one_sentence_for_every_entry(tmp_path, place, to, words):
    data = json.dumps(changed(*place, to=to)).encode()
    assert re.search(words, refusal(tmp_path / "model.json", data))


@pytest.mark.parametrize(("document", "place", "to", "words"), OTHERS, ids=case_name)
def test_one_sentence_for_every_entry_of_every_stage(tmp_path, document, place, to, words):
    restore(document)
    data = json.dumps(changed(*place, to=to, document=document)).encode()
    assert re.search(words, refusal(tmp_path / "model.json", data))


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (PARTIAL, (*DESIGN, "row_norm")),
        (STANDARDISED, (*SHARED, "scale")),
        (INFERRED, (*NUMBERS, "inference")),
        (SCORED, (*NUMBERS, "roc")),
        *((INFERRED, (name,)) for name in INFERRED if name != "sha256"),
        *((INFERRED, ("call", name)) for name in INFERRED["call"]),
        *((INFERRED, ("derived", name)) for name in INFERRED["derived"]),
        *((INFERRED, ("ledger", name)) for name in INFERRED["ledger"]),
    ],
    ids=case_name,
)
def test_entries_are_all_there_and_no_others(tmp_path, document, place):
    copied = json.loads(json.dumps(document))
    *path, last = place
    inner = copied
    for key in path:
        inner = inner[key]
    value = inner.pop(last)
    copied["sha256"] = content_hash(copied)
    refusal(tmp_path / "model.json", json.dumps(copied).encode())
    inner[last], inner["rows"] = value, [1, 2]
    copied["sha256"] = content_hash(copied)
    refusal(tmp_path / "model.json", json.dumps(copied).encode())


TEXT = json.dumps(DOCUMENT)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (TEXT.encode()[:-40], "not JSON, or was cut off"),
        (TEXT.encode("utf-16"), "UTF-8"),
        (b"\x80\x04\x95.", "UTF-8"),
        (b"[1, 2]", "not a release"),
        (b'"text"', "not a release"),
        (b"[" * 100_000, "nests"),
        (b'{"a": 1, "a": 1}', "same key twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "digits"),
        (b'{"a": "\\ud800"}', "half a character"),
        (b" " * (2**25 + 1), "at most"),
        (TEXT.replace("150", "151").encode(), "changed after saving"),
        (TEXT.replace(DOCUMENT["sha256"], "0" * 64).encode(), "changed after saving"),
    ],
    ids=lambda x: str(x[:20]),
)
def test_files_that_are_no_releases(tmp_path, data, words):
    assert re.search(words, refusal(tmp_path / "model.json", data))


# -- code that a formula asks for -------------------------------------------------------------


def declared(name, size):
    """A factor, or a number if it has no levels."""
    levels = [f"l{i}" for i in range(size)]
    factor, number = DOCUMENT["call"]["design"]["variables"][:2]
    if not levels:
        return {**number, "name": name}
    return {**factor, "name": name, "levels": levels}


@pytest.mark.parametrize(
    ("right", "reads", "words"),
    [
        ("a^2^9^9^9^9", {"a": 0}, "takes 2 numbers"),
        ("C(f, contr.treatment(9**9**9**9))", {"f": 2}, "constants only"),
        ("C(f, contr.treatment('%99999d' %% 1))", {"f": 2}, "constants only"),
        ("C(f, contr.sum %__import__% 1)", {"f": 2}, "cannot read '%'"),
        ("C(f, contr.custom(f))", {"f": 2}, "constants only"),
        ("C(f, contr.nothing)", {"f": 2}, "constants only"),
        ("C(f, contr.treatment(open('canary', 'w')))", {"f": 2}, "constants only"),
        ("I(__import__('os').system('touch canary'))", {}, "design"),
        ("I(open('canary', 'w'))", {}, "calls open"),
        ("I(eval(\"open('canary', 'w')\"))", {}, "calls eval"),
        ("I(a %__import__% 2)", {"a": 0}, "cannot read '%'"),
        ("np.save('canary', a)", {"a": 0}, "calls save"),
        ("a + b", {"a": 0}, "that the formula reads"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_a_formula_runs_nothing(tmp_path, monkeypatch, right, reads, words):
    monkeypatch.chdir(tmp_path)
    design = json.loads(json.dumps(DOCUMENT["call"]["design"]))
    design["formula"] = f"Species == 'setosa' ~ {right}"
    design["variables"] = [
        design["variables"][0],
        *(declared(name, size) for name, size in reads.items()),
    ]
    document = changed("call", "design", to=design)
    assert re.search(words, refusal(tmp_path / "model.json", json.dumps(document).encode()))
    assert not Path("canary").exists()


@pytest.mark.parametrize(
    ("place", "to"),
    [
        (("notice",), "covered by angels"),
        (("randomness",), "seed"),
        (("call", "n"), 140),
        ((*STAGES, "coefficients", "noise", "rate"), lambda r: 2 * r),
        (("derived", "names", 1), "Sepal.Width"),
    ],
    ids=case_name,
)
def test_planted_blindness_to_what_follows_is_caught(tmp_path, monkeypatch, place, to):
    """A reader that does not compare what was read with what it would write."""
    data = json.dumps(changed(*place, to=to)).encode()
    refusal(tmp_path / "model.json", data)
    monkeypatch.setattr(release_file, "_require_derived", lambda *_: None)
    with pytest.raises(pytest.fail.Exception):
        refusal(tmp_path / "model.json", data)


def test_planted_trust_in_the_sum_is_caught(tmp_path, monkeypatch):
    """A reader that believes what the file says of all parts together."""
    copied = changed("guarantee", "epsilon", to=0.65, document={**INFERRED, "ledger": None})
    copied["notice"] = copied["notice"].replace("epsilon = 1 ", "epsilon = 0.65 ")
    copied["sha256"] = content_hash(copied)
    data = json.dumps(copied).encode()
    assert "made for epsilon = 1" in refusal(tmp_path / "model.json", data)
    monkeypatch.setattr(entries, "require_standing", lambda *_: None)
    with pytest.raises(pytest.fail.Exception):
        refusal(tmp_path / "model.json", data)


def test_planted_loss_of_a_bit_is_caught(tmp_path, monkeypatch):
    """A writer that rounds."""
    honest = fit_file.plan_again

    def rounded(*facts, **options):
        spec, schema = honest(*facts, **options)
        scale = np.nextafter(spec.columns.scale, np.inf)
        return replace(spec, columns=replace(spec.columns, scale=scale)), schema

    fit = fit_clinic(clinic())
    monkeypatch.setattr(fit_file, "plan_again", rounded)
    with pytest.raises(ReleaseFileError, match="would not be read back"):
        fit.save(tmp_path / "model.json", overwrite=True)


def test_rounding_of_another_machine_is_no_contradiction(tmp_path):
    """Facts for readers may differ in their last bits; arguments and released numbers may not."""
    copied = json.loads(json.dumps(INFERRED))
    stage = copied["derived"]["stages"]["coefficients"]
    stage["noise"]["rate"] = math.nextafter(stage["noise"]["rate"], math.inf)
    units = copied["derived"]["fits"][0]["user_units"]
    units[0] = math.nextafter(units[0], math.inf)
    copied["sha256"] = content_hash(copied)
    found = restore(copied)
    assert canonical(release_document(found)) == canonical(INFERRED)
    place = *NUMBERS, "coefficients", 0
    with pytest.raises(ReleaseFileError, match="multiples of the grid"):
        restore(changed(*place, to=lambda x: math.nextafter(x, math.inf), document=INFERRED))


def test_what_cannot_be_written_names_the_path_that_was_given(tmp_path):
    fit = dplr("vote ~ age", load_dataset("anes96"), eps=1.0, **load_schema("anes96"))
    with pytest.raises(ReleaseFileError, match="it is a folder; name a file in it") as error:
        fit.save(tmp_path)
    assert str(error.value).startswith(f"{str(tmp_path)!r} was not written: ")
    with pytest.raises(FileNotFoundError) as missing:
        fit.save(tmp_path / "none" / "fit.json")
    assert str(missing.value).endswith(f"{str(tmp_path / 'none' / 'fit.json')!r}")
    assert list(tmp_path.iterdir()) == []
