"""Release files of the format are read, and predict what the saved fits did."""

import json

import numpy as np
import pytest
from results.freeze import FITS, FROZEN, facts_of

from privatelr import load
from privatelr.results.release_files import VERSION, release_document
from privatelr.results.release_files.answer_entries import ANSWER_VERSION
from privatelr.results.strata_of_fits import Strata

FILES = sorted(FROZEN.glob("*/*.json"))
ANSWERS = sorted(FROZEN.glob("answers/*/*.json"))
ABOUT_THE_FILE = ("version", "written_by", "sha256")


def test_the_format_is_kept():
    assert {path.stem for path in FILES if path.parent.name == str(VERSION)} == FITS.keys()
    assert {int(path.parent.name) for path in ANSWERS} == {ANSWER_VERSION}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_file_is_the_model_that_it_was(path):
    facts = json.loads(path.with_suffix(".facts").read_text(encoding="utf-8"))
    fit = load(path)
    again = facts_of(fit, facts["rows"])
    for name, least in (("predicted", 1e-12), ("coef", 1e-300)):
        found, kept = (np.array(one[name], dtype=float) for one in (again, facts))
        np.testing.assert_allclose(found, kept, rtol=1e-12, atol=least)
    assert (again["guarantee"], again["formula"]) == (facts["guarantee"], facts["formula"])
    assert str(fit)
    assert fit.card()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_written_again_it_is_the_same_document(path):
    """Key for key in the same order; what was released, and what it cost, to the last bit."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    for document, fit in zip(kept.get("fits", [kept]), fits(load(path)), strict=True):
        again = json.loads(json.dumps(release_document(fit)))
        for name in ABOUT_THE_FILE:
            document.pop(name, None), again.pop(name)
        assert without_fractions(again) == without_fractions(document)
        np.testing.assert_allclose(fractions(again), fractions(document), rtol=1e-12, atol=1e-12)
        for name in ("guarantee", "calibration", "inference", "ledger", "choices", "threshold"):
            assert again[name] == document[name]
        assert again["coefficients"]["design_units"] == document["coefficients"]["design_units"]


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_file_is_the_answer_that_it_was(path):
    facts, answer = json.loads(path.with_suffix(".facts").read_text(encoding="utf-8")), load(path)
    again = json.loads(json.dumps(answer.to_dict()))
    assert without_fractions(again) == without_fractions(facts)
    np.testing.assert_allclose(fractions(again), fractions(facts), rtol=1e-12, atol=1e-12)
    assert str(answer)
    assert answer.card()


def fits(fit):
    return fit.fits.values() if isinstance(fit, Strata) else [fit]


def without_fractions(document):
    return json.dumps(json.loads(json.dumps(document), parse_float=lambda _: "a fraction"))


def fractions(document):
    found = []
    json.loads(json.dumps(document), parse_float=lambda text: found.append(float(text)))
    return found
