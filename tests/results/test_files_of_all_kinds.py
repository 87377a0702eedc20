"""A fit or an answer of any kind is read back from its file as it was written."""

import json
import warnings

import pytest
from kinds_of_fits import FITS, answers, facts_of, rows_of

from privatelr import PrivacyWarning, load
from privatelr.results.release_files import release_document
from privatelr.results.strata_of_fits import Strata

ABOUT_THE_FILE = ("written_by", "sha256")


@pytest.fixture(scope="module")
def answered():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return answers()


def documents(fit):
    """What each fit of a file writes, without what is about the writer."""
    each = fit.fits.values() if isinstance(fit, Strata) else [fit]
    for document in map(release_document, each):
        yield json.dumps({k: v for k, v in document.items() if k not in ABOUT_THE_FILE})


@pytest.mark.parametrize("kind", FITS)
def test_a_file_is_the_fit_that_it_was(kind, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        fit = FITS[kind]()
    fit.save(tmp_path / "fit.json")
    read = load(tmp_path / "fit.json")
    rows = rows_of(fit)
    assert json.dumps(facts_of(read, rows)) == json.dumps(facts_of(fit, rows))
    assert [*documents(read)] == [*documents(fit)]
    assert str(read)
    assert read.card()


@pytest.mark.parametrize(
    "kind", ["curve", "curve_persons", "choice", "bounds", "bounds_persons", "levels"]
)
def test_a_file_is_the_answer_that_it_was(kind, answered, tmp_path):
    answered[kind].save(tmp_path / "answer.json")
    read = load(tmp_path / "answer.json")
    read.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "answer.json").read_bytes()
    assert str(read) == str(answered[kind])
    assert read.card()
