"""Private answers in files: what is read back, what is refused, and what a ledger knows of them."""

import copy
import json
import warnings
from contextlib import suppress

import numpy as np
import pytest
from frames_for_laws import SCHEMA, clinic_by_age

from privatelr import (
    REPLACE_PERSON,
    ZCDP,
    ApproxDP,
    GuaranteeError,
    Ledger,
    PrivacyWarning,
    ReleaseFileError,
    choose,
    dplpsvm,
    dplr,
    dpsvm,
    levels_from,
    load,
    suggest_bounds,
)
from privatelr.privacy.accounting import of_public_data
from privatelr.results.release_files import content_hash, load_with_hash

FORMULA, MANY = "y ~ age + dose + smoker", 1200


@pytest.fixture(scope="module")
def frame():
    return clinic_by_age(MANY)


@pytest.fixture(scope="module")
def answers(frame):
    """An answer of every kind, of several models and guarantees."""
    with of_public_data():
        fit = dplr(FORMULA, frame, eps=4.0, **SCHEMA)
        svm = dpsvm(FORMULA, frame, eps=4.0, loss="huber", h=0.3, **SCHEMA)
        lp = dplpsvm("y ~ age + dose", frame, eps=4.0, rounds=10, **SCHEMA)
        other = dplr("y ~ dose", frame, eps=2.0, delta=1e-6, **SCHEMA)
        many = clinic_by_age(MANY).assign(who=np.arange(MANY) // 2)
        persons = dplr(FORMULA, many, eps=4.0, person="who", records_per_person=2, **SCHEMA)
        several = {"one": fit, "again": fit, "svm": svm}
        return {
            "curve": fit.private_roc(frame, eps=2.0),
            "curve of margins": svm.private_roc(frame, eps=ZCDP(0.2)),
            "curve with a delta": lp.private_roc(frame, eps=1.0, delta=1e-5),
            "choice": choose(several, frame, eps=0.5),
            "choice with a delta": choose({"fit": fit, "other": other}, frame, 0.5, score="brier"),
            "curve of persons": persons.private_roc(many, eps=2.0),
            "choice of persons": choose({"a": persons, "b": persons}, many, 1.0),
            "bounds": suggest_bounds(frame, {"age": (0, 1000), "dose": (-50, 50)}, eps=4.0),
            "bounds with a rho": suggest_bounds(frame, {"age": (0, 1000)}, eps=ZCDP(0.5)),
            "levels": levels_from(frame, "smoker", eps=2.0, delta=1e-6),
            "levels of numbers": levels_from(frame.round(-1), "age", eps=2.0, delta=1e-6),
            "bounds of persons": suggest_bounds(many, {"age": (0, 1000)}, eps=4.0, person="who"),
            "levels of persons": levels_from(many, "smoker", 2.0, 1e-6, person="who"),
        }


NAMES = (
    *("curve", "curve of margins", "curve with a delta", "choice"),
    *("choice with a delta", "curve of persons", "choice of persons", "bounds"),
    *("bounds with a rho", "levels", "levels of numbers", "bounds of persons", "levels of persons"),
)


def test_what_is_read_back_can_be_used(answers, frame, tmp_path):
    for name, answer in answers.items():
        answer.save(tmp_path / f"{name}.json", overwrite=True)
    curve = load(tmp_path / "curve.json")
    assert curve.auc == answers["curve"].auc
    assert curve.curve.equals(answers["curve"].curve)
    assert curve.at(0.3).equals(answers["curve"].at(0.3))
    chosen = load(tmp_path / "choice.json")
    assert chosen.label == answers["choice"].label
    assert chosen.fit.predict(frame).equals(answers["choice"].fit.predict(frame))
    assert chosen.candidates[0] is chosen.candidates[1]  # one release, which was paid for once
    assert isinstance(load(tmp_path / "choice with a delta.json").guarantee, ApproxDP)
    assert load(tmp_path / "curve of persons.json").guarantee.neighbours is REPLACE_PERSON
    bounds, levels = load(tmp_path / "bounds.json"), load(tmp_path / "levels.json")
    assert (dict(bounds), dict(levels)) == (dict(answers["bounds"]), dict(answers["levels"]))
    assert (
        dplr(FORMULA, frame, bounds=bounds, levels={**levels, "y": [0, 1]})
        .spec.variables["age"]
        .bounds
        == (bounds["age"])
    )
    numbers = load(tmp_path / "levels of numbers.json")["age"]
    assert [type(one) for one in numbers] == [int] * len(numbers) != []


# -- what is refused -------------------------------------------------------------------------------


def leaves(value, where=()):
    """All places of plain values in a document."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from leaves(item, (*where, key))
    else:
        yield where, value


def edited(document, where, value):
    found = copy.deepcopy(document)
    inside = found
    for key in where[:-1]:
        inside = inside[key]
    inside[where[-1]] = value
    found["sha256"] = content_hash(found)
    return found


def read(document, path):
    path.write_text(json.dumps(document), encoding="utf-8")
    return load(path)


FREE = {"formula", "positive", "fit_guarantee", "written_by", "labels", "label", "name", "column"}
FREE |= {"outer"}
"""Statements that nothing else in the file depends on, or hardly: many an outer range has a
candidate, and as many cells."""


@pytest.mark.parametrize("name", [name for name in NAMES if "persons" not in name])
def test_an_edited_number_with_a_new_hash_is_refused(name, answers, tmp_path):
    path, survived = tmp_path / "answer.json", []
    answers[name].save(path)
    document = json.loads(path.read_bytes())
    for where, value in leaves(document):
        candidate = "candidates" in where  # its own hash is not repaired here
        if FREE & {*where} or candidate or where[0] == "sha256":
            continue
        other = {bool: True, str: f"{value}x", type(None): 1.0}.get(type(value))
        other = value * 1.001 + 1 if isinstance(value, int | float) else other
        other = int(other) if isinstance(value, int) else other
        with suppress(ReleaseFileError):
            read(edited(document, where, other), path)
            survived.append((where, value, other))
    # another number that could have been released, or of records
    silent = ("counts",), ("place",), ("n",), ("levels",)
    assert [one for one in survived if not any(one[0][1 : 1 + len(s)] == s for s in silent)] == []


def test_less_noise_than_the_guarantee_takes_is_refused(answers, tmp_path):
    for name, law in (("curve", "rate"), ("curve of margins", "sd")):
        path = tmp_path / "answer.json"
        answers[name].save(path, overwrite=True)
        document = json.loads(path.read_bytes())
        less = document["derived"]["noise"][law] * (1.01 if law == "rate" else 0.99)
        with pytest.raises(ReleaseFileError, match=rf"noise\.{law}.*the other entries give"):
            read(edited(document, ("derived", "noise", law), less), path)


@pytest.mark.parametrize("name", ["curve", "curve of margins"])
@pytest.mark.parametrize("entry", ["spread", "middle"])
@pytest.mark.parametrize("factor", [1.001, 0.5, 3.0])
def test_an_edited_scale_of_scores_does_not_load(name, entry, factor, answers, tmp_path):
    path = tmp_path / "answer.json"
    answers[name].save(path)
    document = json.loads(path.read_bytes())
    moved = document["call"][entry] * factor + (factor - 1 if entry == "middle" else 0.0)
    with pytest.raises(ReleaseFileError, match=r"derived\.(edges\[.\]|youden|topleft|auc) is"):
        read(edited(document, ("call", entry), moved), path)


def test_a_choice_keeps_what_each_candidate_promises(answers, tmp_path):
    path = tmp_path / "answer.json"
    answers["choice with a delta"].save(path)
    document = json.loads(path.read_bytes())
    assert document["guarantee"]["epsilon"] == pytest.approx(6.5)
    inside = document["call"]["candidates"][1]
    inside["guarantee"]["epsilon"] = 1.0
    document["sha256"] = content_hash(document)
    with pytest.raises(ReleaseFileError, match="candidate 'other': its content does not have"):
        read(document, path)
    inside["sha256"] = content_hash(inside)
    document["sha256"] = content_hash(document)
    with pytest.raises(ReleaseFileError, match="candidate 'other': guarantee"):
        read(document, path)


def test_a_curve_of_a_fit_is_in_the_file_of_the_fit(frame):
    fit = dplr(FORMULA, frame, eps=4.0, spend={"coefficients": 0.75, "roc": 0.25}, **SCHEMA)
    with pytest.raises(GuaranteeError, match="save the fit, whose file has it"):
        fit.roc.save("nowhere.json")


def test_a_void_answer_says_so(frame, tmp_path):
    with of_public_data(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        fit = dplr(FORMULA, frame, eps=4.0, **SCHEMA)
        given = {"seed": 3, "eps": 1.0}
        made = [fit.private_roc(frame, **given), choose({"a": fit, "b": fit}, frame, **given)]
    for answer in made:
        answer.save(tmp_path / "void.json", overwrite=True)
        document = json.loads((tmp_path / "void.json").read_bytes())
        assert document["notice"].startswith("NOT PRIVATE")
        assert document["randomness"] == "seed"
        assert str(load(tmp_path / "void.json")) == str(answer)
        assert "has no guarantee as a whole" in answer.card()
        assert "seeded noise" in answer.card()
        assert "operating system" not in answer.card().partition("The chosen fit")[0]


# -- ledgers, cards ------------------------------------------------------------------------------


def test_a_ledger_on_disk_is_told_of_the_file(frame, tmp_path):
    ledger = Ledger.create(tmp_path / "l.ledger", 20.0)
    fits = {name: dplr(f"y ~ {name}", frame, eps=1.0, **SCHEMA) for name in ("age", "dose")}
    made = [
        fits["age"].private_roc(frame, eps=1.0, ledger=ledger),
        choose(fits, frame, eps=1.0, ledger=ledger),
    ]
    for answer in made:
        path = tmp_path / "answer.json"
        answer.save(path, overwrite=True)
        entry = load(path).entry
        assert entry == answer.entry
        assert ledger.knows(entry)
        assert ledger.saved_as(entry) == load_with_hash(path)[1]
        document = json.loads(path.read_bytes())
        with pytest.raises(ReleaseFileError, match="ledger"):
            read(edited(document, ("ledger", "events", 0, "epsilon"), 0.001), path)
    assert Ledger.check(tmp_path / "l.ledger") == ()


# -- declarations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "where", "value", "words"),
    [
        ("bounds", ("released", "ranges", 0), [90.0, 18.0], "the lower one first"),
        ("bounds", ("released", "ranges", 0), [18.1, 90.0], "two candidates"),
        ("bounds", ("call", "outer", 1, 0), "age", "each column once"),
        ("bounds", ("call", "outer", 0, 1), [5.0, 5.0], "lo < hi"),
        ("bounds", ("call", "n"), 20, "mostly noise"),
        ("bounds", ("derived", "eta"), 0.5, "derived.eta"),
        ("bounds", ("derived", "beyond"), 1, "derived.beyond"),
        ("bounds", ("call", "target", "epsilon"), 2.0, "the noise was made for"),
        ("levels", ("released", "levels"), ["yes", "no"], "increasing order"),
        ("levels", ("released", "levels"), ["no", "no"], "increasing order"),
        ("levels", ("call", "n"), 1, "no more than records"),
        ("levels", ("derived", "half"), 3, "derived.half"),
        ("levels", ("call", "target", "delta"), 1e-7, "the noise was made for"),
    ],
)
def test_declarations_that_contradict_themselves_do_not_load(
    name, where, value, words, answers, tmp_path
):
    path = tmp_path / "answer.json"
    answers[name].save(path)
    with pytest.raises(ReleaseFileError, match=words):
        read(edited(json.loads(path.read_bytes()), where, value), path)


@pytest.mark.parametrize("name", ["curve of persons", "bounds", "levels"])
def test_any_edit_without_a_new_hash_is_refused(name, answers, tmp_path):
    path = tmp_path / "answer.json"
    answers[name].save(path)
    document = json.loads(path.read_bytes())
    for where, value in leaves(document):
        if "candidates" in where:
            continue
        inside = document
        for key in where[:-1]:
            inside = inside[key]
        inside[where[-1]] = f"{value}x" if isinstance(value, str) else "x"
        path.write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(ReleaseFileError):
            load(path)
        inside[where[-1]] = value
