"""Ten thousand damaged release files: each is refused in one sentence, or is the same model."""

import json
import math
import random
import re
import sys
import warnings
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from frames_for_laws import SCHEMA as DECLARED
from frames_for_laws import clinic

from privatelr import ZCDP, GuaranteeError, NonPrivate, ReleaseFileError, dplr, load
from privatelr.mechanisms.calibration import achieved_moments
from privatelr.mechanisms.verify import achieved
from privatelr.privacy import compose, from_json, implies, to_json
from privatelr.results.release_files import (
    calibration_file,
    canonical,
    content_hash,
    design_file,
    release_document,
    restored_fit,
)
from privatelr.results.release_files import document as documents

SCHEMA = json.loads((files("privatelr.results") / "release.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
NEW = clinic(n=12, seed=3)
NEW.loc[0, "age"] = np.nan
NEW.loc[1, "smoker"] = "undeclared"
OPTIONS = [
    {},
    {"delta": 1e-6, "bounds": None, "rp_dim": 2, "threshold": "youden"},
    {"op": False, "eps": ZCDP(0.1), "formula": "age > 50 ~ dose * C(smoker, contr.sum)"},
    {"eps": 0},
    {"spend": "inference"},
    {"eps": ZCDP(0.1), "spend": {"coefficients": 0.9, "inference": 0.1}},
    {"eps": 0, "spend": "inference"},
    {"formula": "y ~ dose + age + smoker:dose", "bounds": {"age": (18, 90)}, "row_norm": 2.0},
]


def model(formula="y ~ age + dose + smoker", **options):
    """A fit with the same coefficients and projection in every run."""
    fit = dplr(formula, clinic(), **{**DECLARED, **options})
    spec, grid = fit.spec, fit.calibration.grid or 2.0**-20
    coef = grid * np.arange(3.0, 3.0 + spec.d) ** 5
    if spec.projection is not None:
        drawn = np.linspace(-1, 1, spec.projection.size).reshape(spec.projection.shape)
        spec = replace(spec, projection=drawn)
    release = replace(fit.release, coef=coef).having(inference=known(fit.release.moments))
    return replace(fit, spec=spec, release=release)


def known(moments):
    """Moments that are the same in every run."""
    if moments is None:
        return None
    grid = moments.calibration.grid or 2.0**-20
    return replace(moments, values=grid * (37.0 * np.arange(len(moments.values)) % 1009 - 300))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Each fit with its bytes and its document."""
    found = []
    for index, options in enumerate(OPTIONS):
        fit = model(**options)
        path = tmp_path_factory.mktemp("whole") / f"{index}.json"
        fit.save(path, overwrite=True)
        found.append((fit, path.read_bytes(), json.loads(path.read_bytes())))
    return found


@pytest.fixture
def read(monkeypatch, tmp_path):
    """Load bytes as if they were a file, and plan each design once: planning is a function."""
    planned, plan = {}, design_file.plan_again
    path = tmp_path / "model.json"
    names = ("formula", "variables", "intercept", "bound", "bound_source", "unbounded_norm")

    def remembered(given):
        # what decides the plan is in these entries, and in the number of columns
        key = repr([[getattr(given, name) for name in names], len(given.columns)])
        if key not in planned:
            planned[key] = plan(given)
        return planned[key]

    def read(data, **options):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(design_file, "plan_again", remembered)
            warnings.simplefilter("error")
            path.write_bytes(data)
            try:
                return load(path, **options)
            except ReleaseFileError as error:
                assert_one_sentence(error)
                return None

    return read


def assert_one_sentence(error):
    message = str(error)
    assert re.match(r"'[^']*model\.json': ", message)
    assert message.endswith(".")
    assert "\n" not in message
    assert error.__cause__ is None


# -- damage ----------------------------------------------------------------------------------

NASTY = [
    *(None, True, False, 0, 1, -1, 2, 0.0, -0.0, 0.5, 1e-300, -1e300, 5e-324, 10**17, 1e100),
    *(math.nan, math.inf, -math.inf, 10**30, -(10**400), 1.7976931348623157e308),
    *("", "1", "x", "\x00", "\u202e", "`", "é" * 300, "a" * 5000, "NaN", "__import__('os')"),
    *([], {}, [[]], [None], {"": 0}, [0] * 1000, {"kind": "pure"}, {"__class__": "os.system"}),
    *("none", "pure", "zcdp", "void: x", "gaussian", "youden", "seed", "REPLACE_ONE", "text"),
    *("y ~ .", "y ~ age", "age + dose", "row_norm", "contr.sum", "logical", [True, 1.0]),
]


def flipped(data, rng):
    """One to three bytes changed, dropped, added or doubled; or the end cut off."""
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(damaged))
        match rng.randrange(6):
            case 0:
                damaged[at] ^= 1 << rng.randrange(8)
            case 1:
                damaged[at] = rng.choice(b'0123456789"{}[],:.-eE \n\\')
            case 2:
                del damaged[at : at + rng.choice([1, 1, 2, 30])]
            case 3:
                damaged[at:at] = rng.choice([b" ", b"\n", b"0", b"1", b"-", b",", b"[", b"\xff"])
            case 4:
                damaged[at:at] = damaged[at : at + rng.randint(1, 60)]
            case 5:
                del damaged[at if rng.random() < 0.3 else len(damaged) - 1 :]
        if not damaged:
            break
    return bytes(damaged)


def places(value, path=()):
    """Every node below the top."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def broken(document, rng, likely=None):
    """A document with one or two nodes damaged, the likely ones if there are any."""
    copy = json.loads(json.dumps(document))
    for _ in range(rng.choice([1, 1, 1, 2])):
        all_places = [p for p in places(copy) if p != ("sha256",)]
        path = rng.choice([p for p in all_places if likely and likely(p)] or all_places)
        parent, key, value = at(copy, path[:-1]), path[-1], at(copy, path)
        match rng.randrange(8):
            case 0 | 1:
                parent[key] = rng.choice(NASTY)
            case 2 if isinstance(value, int | float) and not isinstance(value, bool):
                factor = rng.choice([-1, 0.5, 0.999999, 1 + 1e-12, 1.000001, 2, 10, 1e6])
                parent[key] = value * factor
            case 3 if isinstance(value, int | float) and not isinstance(value, bool):
                parent[key] = rng.choice([str(value), float(value), bool(value), [value]])
            case 2 | 3 if isinstance(value, str):
                parent[key] = rng.choice([value[:-1], value + value, value.upper(), [value]])
            case 4:
                del parent[key]
            case 5 if isinstance(parent, list):
                parent.insert(key, value)
            case 5:
                parent[f"{key}_"] = value
            case 6:
                other = rng.choice(list(places(copy)))
                at(copy, other[:-1])[other[-1]], parent[key] = value, at(copy, other)
                # a node may now hold itself, which JSON cannot spell
                return nothing_round(copy) or json.loads(json.dumps(document))
            case _:
                parent[key] = bomb(rng)
    return copy


def nothing_round(value):
    try:
        json.dumps(value)
    except (ValueError, RecursionError):
        return None
    return value


def bomb(rng):
    value = rng.choice([0, "x"])
    for _ in range(rng.choice([2, 5, 11, 30, 400])):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def spelled(document, rng):
    """The document as bytes, sometimes with a key twice."""
    data = json.dumps(document)
    if rng.random() < 0.02:
        data = data.replace('"version":', '"version": 1, "version":', 1)
    return data.encode()


# -- what may come out -----------------------------------------------------------------------


def check_same(found, fit, document):
    assert canonical(release_document(found)) == canonical(document)
    for type in ("link", "probabilities"):
        assert found.predict(NEW, type=type).equals(fit.predict(NEW, type=type))
    assert found.guarantee == fit.guarantee


def check_consistent(found, data):
    """The guarantee is no stronger than the numbers, and everything a user may ask works."""
    VALIDATOR.validate(json.loads(data))
    assert not found.has_diagnostics
    guarantee, calibration = found.guarantee, found.calibration
    if not isinstance(guarantee, NonPrivate):
        assert implies(achieved(calibration), relaxed(calibration.target))
        assert implies(calibration.target, relaxed(guarantee))
        assert calibration.problem.radius >= found.spec.radius * (1 - 2e-9)
        assert calibration.problem.d == found.spec.d == len(found.release.coef)
    check_parts(found)
    with np.errstate(all="ignore"):
        found.predict(NEW, type="link")
        found.predict(NEW, type="classes", threshold=0.5)
        for text in (found.card(), found.card("html"), str(calibration)):
            assert text
        if found.release.moments is not None and len(data) % 4:
            return  # standard errors take time, so they are asked for every now and then
        assert str(found)
        assert found._repr_html_()
        found.tidy(), found.glance()


def check_parts(found):
    """Each part is worth what it claims, and both together are what is promised."""
    guarantee, calibration, moments = found.guarantee, found.calibration, found.release.moments
    if moments is None:
        return
    d = found.spec.d
    assert moments.values.shape == (d * (d + 1),)
    assert moments.calibration.problem == calibration.problem
    target = moments.calibration.target
    assert implies(achieved_moments(moments.calibration), relaxed(target))
    assert isinstance(target, NonPrivate) == isinstance(calibration.target, NonPrivate)
    assert np.linalg.norm(moments.curvature) < 1e3 * found.spec.radius**2 * d**2
    if not isinstance(guarantee, NonPrivate):
        assert implies(compose([calibration.target, target]), relaxed(guarantee))


def relaxed(guarantee):
    """The guarantee with room for rounding."""
    claimed = to_json(guarantee)
    claimed |= {k: v * (1 + 2e-9) for k, v in claimed.items() if isinstance(v, float)}
    return from_json(claimed)


@contextmanager
def nothing_runs():
    """Within the block no module is imported, no process started, no other file written."""
    WATCHED.clear()
    WATCHING.append(True)
    try:
        yield
    finally:
        WATCHING.clear()
    assert WATCHED == []


WATCHING, WATCHED = [], []


def watch(event, arguments):
    if not WATCHING:
        return
    opened = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    imported = event == "import" and arguments[0] not in sys.modules
    if opened or imported or event.split(".")[0] in ("os", "subprocess", "socket", "pickle"):
        WATCHED.append((event, str(arguments)[:200]))


sys.addaudithook(watch)


# -- ten thousand ----------------------------------------------------------------------------


def rehashed(document):
    """The document with its own hash; NaN and deep nests have none."""
    with suppress(ValueError, RecursionError):
        document["sha256"] = content_hash(document)
    return document


def test_damaged_bytes(models, read):
    """A byte anywhere: refused, or only white space was touched."""
    rng, same = random.Random(20), 0
    for index in range(5000):
        fit, data, document = models[index % len(models)]
        found = read(flipped(data, rng))
        if found is not None:
            same += 1
            check_same(found, fit, document)
    assert 50 < same < 1000


def test_damaged_entries_with_the_old_hash(models, read):
    """The hash finds whatever was changed."""
    rng = random.Random(21)
    for index in range(1500):
        fit, _, document = models[index % len(models)]
        found = read(spelled(broken(document, rng), rng))
        if found is not None:
            check_same(found, fit, document)


def test_damaged_entries_with_the_right_hash(models, read):
    """Without the hash to help: refused, or a model whose guarantee follows from its numbers."""
    rng, accepted = random.Random(22), 0
    for index in range(3500):
        document = rehashed(broken(models[index % len(models)][2], rng))
        data = spelled(document, rng)
        found = read(data)
        if found is not None:
            accepted += 1
            check_consistent(found, data)
    assert 50 < accepted < 700


def anywhere_in_inference(path):
    return path[0] == "inference"


def what_is_promised(path):
    """What the guarantee follows from."""
    named = {"guarantee", "target", "noise", "balance", "grid", "lambda", "n", "radius"}
    return path[0] in ("guarantee", "calibration", "inference") and not named.isdisjoint(path)


def test_damaged_entries_about_inference(models, read):
    """The same where it is about the second part of the promise."""
    rng, accepted = random.Random(24), 0
    bought = [document for _, _, document in models if document["inference"]]
    for index in range(1000):
        likely = anywhere_in_inference if index % 4 == 0 else what_is_promised
        document = rehashed(broken(bought[index % len(bought)], rng, likely))
        data = spelled(document, rng)
        found = read(data)
        if found is not None:
            accepted += 1
            check_consistent(found, data)
    assert 20 < accepted < 400


def test_reading_runs_and_imports_nothing(models, tmp_path):
    rng, path = random.Random(23), tmp_path / "model.json"
    for index in range(200):
        document = rehashed(broken(models[index % len(models)][2], rng))
        path.write_bytes(spelled(document, rng))
        with nothing_runs(), suppress(ReleaseFileError):
            load(path)


def test_the_watch_sees(tmp_path):
    with pytest.raises(AssertionError), nothing_runs():
        (tmp_path / "canary").write_text("", encoding="utf-8")
    with pytest.raises(AssertionError), nothing_runs(), suppress(ImportError):
        __import__("a_module_that_does_not_exist")


def test_planted_trust_is_caught(models, read, monkeypatch):
    """A reader that takes the guarantee from the file lets a stronger one pass."""
    monkeypatch.setattr(calibration_file, "achieved", lambda calibration: calibration.target)
    with pytest.raises((AssertionError, GuaranteeError, StopIteration)):
        test_damaged_entries_with_the_right_hash(models, read)


def test_planted_trust_in_moments_is_caught(models, read, monkeypatch):
    monkeypatch.setattr(calibration_file, "achieved_moments", lambda moments: moments.target)
    with pytest.raises((AssertionError, GuaranteeError)):
        test_damaged_entries_about_inference(models, read)


def test_planted_trust_in_the_sum_is_caught(models, read, monkeypatch):
    """A reader that takes the guarantee of the whole from the file."""
    monkeypatch.setattr(restored_fit, "is_total", lambda given, total: True)
    with pytest.raises((AssertionError, GuaranteeError)):
        test_damaged_entries_about_inference(models, read)


def test_planted_blindness_to_the_hash_is_caught(models, read, monkeypatch):
    """A reader that does not compare the hash."""
    honest = documents.content_hash
    monkeypatch.setattr(
        documents,
        "content_hash",
        lambda document: document.get("sha256") or honest(document),
    )
    with pytest.raises(AssertionError):
        test_damaged_entries_with_the_old_hash(models, read)
