"""Fits of Dask frames about persons: whose partitions hold whole persons by public intervals."""

import numpy as np
import pandas as pd
import pytest
from dask_for_tests import KEPT, STREAMED, one_noise

from privatelr import ArgumentError, FormulaError, dplr, dpsvm
from privatelr.call_data import read_data
from privatelr.design.persons import Section, sharing_of
from privatelr.formula import Person
from privatelr.privacy import REPLACE_PERSON, PureDP

dask = pytest.importorskip("dask", reason="needs the extra [dask]")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")

pytestmark = pytest.mark.usefixtures(one_noise.__name__)

BOUNDS = {"x": (0.0, 1.0), "z": (-2.0, 2.0), "y": (0, 1)}
PERSON = {"bounds": BOUNDS, "person": "patient"}
SPENDS = {
    "coefficients": {},
    "scale": {"do_scale": "private"},
    "inference": {"spend": "inference"},
    "all": {"spend": {"scale": 0.1, "coefficients": 0.5, "inference": 0.2, "roc": 0.2}},
}


def visits(sizes=(3, 1, 2, 5, 1, 1, 4, 2) * 25, seed=0):
    rng, n = np.random.default_rng(seed), sum(sizes)
    columns = {"y": rng.integers(2, size=n), "x": rng.uniform(size=n), "z": rng.normal(size=n)}
    columns["patient"] = np.repeat(np.arange(len(sizes)), sizes)
    return pd.DataFrame(columns).sample(frac=1, random_state=seed).reset_index(drop=True)


def by_person(frame, npartitions=4):
    return dd.from_pandas(frame, npartitions=3, sort=False).set_index(
        "patient", npartitions=npartitions
    )


def in_sections(divisions, *parts):
    """A frame of these parts, which says that it has these divisions."""
    made = [dask.delayed(part.set_index("patient")) for part in parts]
    meta = parts[0].set_index("patient").iloc[:0]
    return dd.from_delayed(made, meta=meta, divisions=divisions, verify_meta=False)


def test_the_line_about_a_pass_tells_of_persons(capfd, monkeypatch):
    """How many records a second are read, and for how long, would tell how many there are."""
    monkeypatch.setattr("privatelr.progress_line.OFTEN", 0.0)
    with dask.config.set({"privatelr.memory": 0}):
        dplr("y ~ x", by_person(visits()), verbose=1, **PERSON)
    shown = capfd.readouterr().err
    assert " persons a second" in shown
    assert "records" not in shown


@pytest.mark.parametrize("given", SPENDS.values(), ids=SPENDS)
@pytest.mark.parametrize(
    ("fitting", "most", "memory"), [(dplr, 1, KEPT), (dplr, 3, STREAMED), (dpsvm, 3, KEPT)]
)
def test_releases_are_those_of_a_fit_in_memory(fitting, most, given, memory):
    frame, given = visits(), given | {"records_per_person": most, **PERSON}
    with dask.config.set({"privatelr.memory": memory}):
        found = fitting("y ~ x + z", by_person(frame), 1, **given)
    expected = fitting("y ~ x + z", frame, 1, **given)
    assert found.guarantee == expected.guarantee == PureDP(1, REPLACE_PERSON)
    assert found.nobs == expected.nobs == 200
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-8)
    assert found.calibration == expected.calibration
    if "spend" in given:
        moments = (fit.release.moments.values for fit in (found, expected))
        np.testing.assert_allclose(*moments, rtol=0, atol=1e-9)
    if "roc" in given.get("spend", ()):
        counts = (fit.release.histogram.counts for fit in (found, expected))
        np.testing.assert_array_equal(*counts)


def test_a_person_in_two_partitions_counts_in_one():
    """Whatever an index says that is not true: others' records and the promise stay as they are."""
    frame = visits((3,) * 10)
    low, high = frame[frame.patient < 5], frame[frame.patient >= 5]
    stray = pd.DataFrame({"y": 1, "x": 1.0, "z": 2.0, "patient": [2] * 40})
    honest = in_sections((0, 5, 9), low, high)
    wrong = in_sections((0, 5, 9), low, pd.concat([high, stray]))
    first, second = (dplr("y ~ x + z", data, 1, **PERSON) for data in (honest, wrong))
    assert first.nobs == second.nobs == 10
    np.testing.assert_array_equal(first.coef, second.coef)


def test_shares_of_all_partitions_add_up_to_at_most_one():
    frame = visits((1, 2, 5, 9, 1, 3)).set_index("patient")
    counted = np.zeros(6)
    for low, high, is_last in ((0, 2, False), (2, 2, False), (2, 4, False), (4, 5, True)):
        sharing = sharing_of(Section(frame, low, high, is_last), Person("patient", 2))
        counted += np.bincount(frame.index, sharing.shares, minlength=6)
        assert sharing.persons == (2 if low != high else 0)
    np.testing.assert_allclose(counted, [0.5, 1, 1, 1, 0.5, 1])
    assert counted.max() <= 1


@pytest.mark.parametrize(
    ("index", "low", "high", "inside"),
    [
        ([0.0, -0.0, np.nan, np.inf, 2.0], 0, 2, [True, True, False, False, True]),
        (pd.array([0, None, 3], dtype="Int64"), 0, 2, [True, False, False]),
        (np.array(["a", 1, None, "b", ["a"]], dtype=object), "a", "b", [1, 0, 0, 1, 0]),
        (np.array([1, True, 1.0, "1", None], dtype=object), 0, 2, [1, 1, 1, 0, 0]),
    ],
)
def test_values_outside_of_their_interval_do_not_count(index, low, high, inside):
    frame = pd.DataFrame({"y": range(len(index))}, index=pd.Index(index))
    found = sharing_of(Section(frame, low, high, True), Person("patient"))
    np.testing.assert_array_equal(found.shares > 0, inside)


def frames_without_whole_persons():
    frame = visits()
    whole = by_person(frame)
    yield dd.from_pandas(frame, npartitions=3)
    yield whole.clear_divisions()
    yield whole.rename_axis("other")
    yield in_sections((5, 0, 9), frame, frame)
    yield dd.from_pandas(frame.assign(patient=pd.Timestamp("2020")), npartitions=2)


def test_partitions_that_may_share_a_person_are_refused():
    for data in frames_without_whole_persons():
        with pytest.raises((ArgumentError, FormulaError), match=r"set_index\('patient'\)|patient"):
            dplr("y ~ x + z", data, 1, **PERSON)


def test_no_page_depends_on_the_number_of_records():
    """Of the table, or of a partition."""
    given = {"lambda_": 1.0, "verbose": 1, **PERSON}
    tables = (visits((2,) * 20), visits((1,) * 19 + (700,)))
    first, second = (dplr("y ~ x + z", by_person(table), 1, **given) for table in tables)
    assert str(first.calibration) == str(second.calibration)
    assert not any("719" in text for text in (str(second), repr(second), second.card()))


def test_a_curve_of_partitions_about_persons_is_refused():
    frame = visits()
    fitted = dplr("y ~ x + z", by_person(frame), 1, **PERSON)
    with pytest.raises(ArgumentError, match=r"answers about persons take a table"):
        fitted.private_roc(by_person(frame), 1)
    assert fitted.private_roc(frame, 1).nobs == 200


FIVE = [0.0, 0, 1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "ids",
    [
        FIVE,
        [0.0, 0, 1, 1, 2, np.nan, 4, 5],
        [np.nan, 0, 1, 1, 2, np.nan, np.nan, 5],
        [np.nan] * 8,
    ],
    ids=["none", "one", "several", "all"],
)
def test_there_are_as_many_persons_as_in_memory(ids):
    """Whether an identity is missing or not, so that m is that of neighbours."""
    frame = visits((1,) * 8).assign(patient=ids)
    low = frame.patient.lt(3) | frame.index.isin([0, 1])
    data = in_sections((0.0, 3.0, 5.0), frame[low], frame[~low])
    found, expected = (read_data("y ~ x + person(patient)", of, None) for of in (data, frame))
    assert len(found) == len(expected)


def test_the_number_of_persons_does_not_tell_who_is_outside():
    """All records of a person, or some, are replaced by ones outside of their division."""
    seen = set()
    for other in (3.0, np.nan, 77.0, -1.0):
        frame = visits((1,) * 8).assign(patient=[0.0, 0, 1, 1, 2, other, 4, 5])
        data = in_sections((0.0, 3.0, 5.0), frame[:5], frame[5:])
        seen.add(len(read_data("y ~ x + person(patient)", data, None)))
    for ids in ([0.0, 0, 1, 1, 2, 3, 4, 5, 0], [0.0, 4, 1, 1, 2, 3, 0, 5, 3]):
        frame = visits((1,) * 9).assign(patient=ids)
        data = in_sections((0.0, 3.0, 5.0), frame[:5], frame[5:])
        seen.add(len(read_data("y ~ x + person(patient)", data, None)))
    assert seen == {6}
