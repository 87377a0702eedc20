"""Ten thousand damaged files of all kinds: each is refused in one sentence, or says what it is.

An edit that is accepted makes a release that writes the edited file again. Its noise is that of a
calibration from its own arguments, and its guarantee is no stronger than this noise gives.
"""

import json
import math
import random
import re
import sys
import warnings
from contextlib import contextmanager, suppress
from copy import deepcopy as copied
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from achieved_guarantees import achieved, achieved_histogram, achieved_moments, achieved_scale
from kinds_of_fits import FITS, answers, as_data, rows_of, scale_of

from privatelr import NonPrivate, PrivacyWarning, ReleaseFileError, load
from privatelr.mechanisms import Release
from privatelr.privacy import from_json, implies, pure_within, to_json
from privatelr.privacy.accounting import join
from privatelr.results.fit_record import ModelRecord
from privatelr.results.release_files import (
    canonical,
    content_hash,
    release_document,
    release_file,
)
from privatelr.results.release_files import file_entries as entries
from privatelr.results.strata_of_fits import Strata

SCHEMA = json.loads((files("privatelr.results") / "release.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
ABOUT_THE_FILE = ("written_by", "sha256")


@pytest.fixture(scope="module")
def models():
    """A release of each kind with its document."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        made = [*(make() for make in FITS.values()), *answers().values()]
    return [(one, json.loads(json.dumps(release_document(one)))) for one in made]


@pytest.fixture
def read(tmp_path):
    """Load bytes as if they were a file; None if they are refused in one sentence."""
    path = tmp_path / "model.json"

    def read(data):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            path.write_bytes(data)
            try:
                return load(path)
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


def is_stated(path):
    """A place that is neither derived nor in a list of numbers."""
    return path[0] != "derived" and not (path[0] == "released" and isinstance(path[-1], int))


def is_promised(path):
    """What the guarantee follows from."""
    named = {"guarantee", "promise", "target", "shares", "noise", "grid", "lambda", "n", "laws"}
    return not named.isdisjoint(path)


def broken(document, rng):
    """A document with one or two nodes damaged, the likely ones if there are any."""
    copy = json.loads(json.dumps(document))
    for _ in range(rng.choice([1, 1, 1, 2])):
        all_places = [p for p in places(copy) if p != ("sha256",)]
        # lists of numbers are long, and places in them all alike
        wanted = rng.choice([len, is_stated, is_promised])
        path = rng.choice([p for p in all_places if wanted(p)] or all_places)
        parent, key, value = at(copy, path[:-1]), path[-1], at(copy, path)
        match rng.randrange(8):
            case 0 | 1:
                parent[key] = copied(rng.choice(NASTY))
            case 2 if isinstance(value, int | float) and not isinstance(value, bool):
                factor = rng.choice([-1, 0.5, 0.999999, 1 + 1e-12, 1.000001, 2, 10, 1e6])
                parent[key] = value * factor
            case 3 if type(value) in (int, float) and abs(value) < 1e300:
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


def without(document, *names):
    return {name: value for name, value in document.items() if name not in names}


def check_consistent(found, data):
    """The release writes the file again, promises no more than its noise, and can be used."""
    given, again = json.loads(data), json.loads(json.dumps(release_document(found)))
    VALIDATOR.validate(given)
    if given["kind"] == "choice":  # each candidate is a file of its own
        again["call"]["candidates"] = given["call"]["candidates"]
    close(given.pop("derived"), again.pop("derived"))
    if given["ledger"]:
        close(given["ledger"].pop("events"), again["ledger"].pop("events"))
    assert canonical(without(again, *ABOUT_THE_FILE)) == canonical(without(given, *ABOUT_THE_FILE))
    with np.errstate(all="ignore"):
        assert found.card()
        for one in found.fits.values() if isinstance(found, Strata) else [found]:
            if isinstance(one, ModelRecord):
                assert not one.has_diagnostics
                one.predict(as_data(rows_of(one)), scale_of(one))
                if isinstance(one.release, Release):
                    check_noise(one.spec, one.release)


def close(given, again):
    """The same up to the rounding of another machine."""
    if isinstance(again, dict):
        assert isinstance(given, dict)
        assert given.keys() == again.keys()
        for name, value in given.items():
            close(value, again[name])
    elif isinstance(again, list):
        assert isinstance(given, list)
        assert len(given) == len(again)
        for one, other in zip(given, again, strict=True):
            close(one, other)
    elif isinstance(again, float) and isinstance(given, float):
        assert math.isclose(given, again, rel_tol=1e-8, abs_tol=1e-8 * max(1.0, abs(again)))
    else:
        assert (type(given), given) == (type(again), again)


def check_noise(spec, release):
    """Each part is worth what it claims by its numbers alone, and all parts what is promised."""
    made, problem = release.calibration, release.calibration.problem
    assert problem.radius >= spec.radius * (1 - 2e-9)
    assert problem.d == spec.d
    assert len(release.coef) == problem.size
    if not made.target.is_private:
        assert isinstance(release.guarantee, NonPrivate)
        return
    assert implies(achieved(made), relaxed(made.target))
    targets = [made.target]
    for part, worth in (
        (release.moments, achieved_moments),
        (release.scale, achieved_scale),
        (release.histogram, achieved_histogram),
    ):
        if part is not None:
            assert implies(worth(part.calibration), relaxed(part.calibration.target))
            targets.append(part.calibration.target)
    if release.guarantee.is_private:
        total, promised = join(targets), relaxed(release.guarantee)
        if "rho" in to_json(promised) and "epsilon" in to_json(total):
            assert total.epsilon <= pure_within(promised.rho) * (1 + 1e-8)
        else:
            assert implies(total, promised)


def relaxed(guarantee):
    """The guarantee with room for rounding; that of coefficients that share it is the whole."""
    claimed = to_json(getattr(guarantee, "whole", guarantee))
    claimed |= {k: min(v * (1 + 2e-9), 1e300) for k, v in claimed.items() if isinstance(v, float)}
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
    for index in range(2000):
        document = models[index % len(models)][1]
        found = read(flipped(json.dumps(document, indent=1).encode(), rng))
        if found is not None:
            same += 1
            assert canonical(release_document(found)) == canonical(document)
    assert 10 < same < 1000


def test_damaged_entries_with_the_old_hash(models, read):
    """The hash finds whatever was changed."""
    rng = random.Random(21)
    for index in range(1500):
        document = models[index % len(models)][1]
        found = read(spelled(broken(document, rng), rng))
        if found is not None:
            assert canonical(release_document(found)) == canonical(document)


def forged(models, read, times, seed):
    """Damage files as a forger who computes the hash; returns how many edits are accepted."""
    rng, accepted = random.Random(seed), 0
    for index in range(times):
        document = rehashed(broken(models[index % len(models)][1], rng))
        data = spelled(document, rng)
        found = read(data)
        if found is not None:
            accepted += 1
            check_consistent(found, data)
    return accepted


def test_damaged_entries_with_the_right_hash(models, read):
    """Without the hash to help: refused, or a release that says what it is."""
    assert 100 < forged(models, read, 6500, seed=22) < 2000


def test_reading_runs_and_imports_nothing(models, tmp_path):
    rng, path = random.Random(23), tmp_path / "model.json"
    for _, document in models:  # what is imported when it is first used
        path.write_text(json.dumps(document), encoding="utf-8")
        load(path)
    for index in range(200):
        document = rehashed(broken(models[index % len(models)][1], rng))
        path.write_bytes(spelled(document, rng))
        with nothing_runs(), suppress(ReleaseFileError):
            load(path)


def test_the_watch_sees(tmp_path):
    with pytest.raises(AssertionError), nothing_runs():
        (tmp_path / "canary").write_text("", encoding="utf-8")
    with pytest.raises(AssertionError), nothing_runs(), suppress(ImportError):
        __import__("a_module_that_does_not_exist")


def test_planted_trust_in_what_follows_is_caught(models, read, monkeypatch):
    """A reader that does not compare what follows with the file."""
    monkeypatch.setattr(release_file, "_require_derived", lambda *_: None)
    with pytest.raises((AssertionError, jsonschema.ValidationError)):
        forged(models, read, 1000, seed=22)


def test_planted_trust_in_the_sum_is_caught(models, read, monkeypatch):
    """A reader that takes the guarantee of the whole from the file."""
    monkeypatch.setattr(entries, "require_standing", lambda *_: None)
    stronger = [json.loads(json.dumps(document)) for _, document in models[:1]]
    for document in stronger:
        document["guarantee"]["epsilon"] = 0.5
        document["notice"] = document["notice"].replace("epsilon = 1 ", "epsilon = 0.5 ")
        data = json.dumps(rehashed(document)).encode()
        with pytest.raises(AssertionError):
            check_consistent(read(data), data)


def test_planted_blindness_to_the_hash_is_caught(models, read, monkeypatch):
    """A reader that does not compare the hash."""
    honest = release_file.content_hash
    monkeypatch.setattr(
        release_file,
        "content_hash",
        lambda document: document.get("sha256") or honest(document),
    )
    with pytest.raises(AssertionError):
        test_damaged_entries_with_the_old_hash(models, read)
