"""Fits about persons to streams that are read anew in every pass: those of the frame in memory."""

import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from frames_for_laws import FixedRandomness
from streams_for_tests import CHANGES, EVERY_MEMORY, arrow, changing, in_batches, pa

import privatelr.fitting
from privatelr import (
    GuaranteeError,
    Ledger,
    PureDP,
    SchemaError,
    dplr,
    dpmultinom,
    dpsvm,
    plan,
    stream,
)
from privatelr.design import persons
from privatelr.numerics import threads
from privatelr.numerics.rows import person_sums
from privatelr.privacy import REPLACE_PERSON


@pytest.fixture(autouse=True)
def _one_noise(monkeypatch):
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)


BOUNDS = {"x": (0.0, 1.0), "z": (-2.0, 2.0), "w": (0.0, 2.0), "y": (0, 1)}
PERSON = {"bounds": BOUNDS, "levels": {"k": ["a", "b", "c"]}, "person": "patient"}


def visits(sizes=(3, 1, 2, 5, 1, 1, 4, 2) * 25, seed=0):
    rng, n = np.random.default_rng(seed), sum(sizes)
    columns = {"y": rng.integers(2, size=n), "x": rng.uniform(size=n), "z": rng.normal(size=n)}
    columns |= {"w": rng.uniform(0, 2, size=n), "k": rng.choice(list("abc"), n)}
    columns["patient"] = np.repeat(np.arange(len(sizes)), sizes)
    return pd.DataFrame(columns).sample(frac=1, random_state=seed).reset_index(drop=True)


GIVEN = {
    "coefficients": (dplr, {"do_scale": False}),
    "three records": (dpsvm, {"records_per_person": 3}),
    "scale": (dplr, {"do_scale": "private", "records_per_person": 2}),
    "inference": (dplr, {"spend": "inference", "do_scale": False}),
    "scale and inference": (dplr, {"spend": "inference", "records_per_person": 3}),
    "delta": (dplr, {"spend": "inference", "delta": 1e-6, "eps": 2.0}),
    "all": (
        dplr,
        {"spend": {"scale": 0.1, "coefficients": 0.5, "inference": 0.2, "roc": 0.2}},
    ),
    "no noise": (dplr, {"eps": 0}),
    "weights": (dplr, {"weights": "w", "spend": "inference"}),
    "weights and scale": (dplr, {"weights": "w", "do_scale": "private"}),
    "subset": (dpsvm, {"subset": "x > 0.2", "records_per_person": 2}),
}


@pytest.mark.parametrize("given", [{"by": "k"}, {"weights": "w"}, {"subset": "x > 0.2"}])
def test_terms_of_arguments_come_in_one_order(given):
    """On pages, in files, and in a plan for the same call."""
    frame, asked = visits(), {"eps": 1.0, "records_per_person": 3, **PERSON, **given}
    fits = [dplr("y ~ x", data, **asked) for data in (frame, in_batches(arrow(frame)))]
    first, second = (re.findall(r"y ~ x .*", str(fit)) for fit in fits)
    assert first == second
    assert first[0].startswith("y ~ x + person(patient, 3) + ")
    assert first[0].rstrip(")") in str(plan("y ~ x", n=1000, **asked))  # which names a stratum


@EVERY_MEMORY
@pytest.mark.parametrize("lengths", [(), (50, 0, 300, 1)])
@pytest.mark.parametrize(("model", "options"), GIVEN.values(), ids=GIVEN)
def test_releases_are_those_of_a_fit_in_memory(model, options, lengths, memory):
    frame, options = visits(), {"eps": 1.0, **PERSON, **options}
    source = stream(in_batches(arrow(frame), *lengths), memory=memory)
    found, expected = (model("y ~ x + z", data, **options) for data in (source, frame))
    assert found.nobs == expected.nobs == 200
    assert found.guarantee == expected.guarantee
    if options["eps"]:
        assert found.guarantee.neighbours is REPLACE_PERSON
    assert found.calibration == expected.calibration
    np.testing.assert_allclose(found.coef, expected.coef, rtol=0, atol=1e-9)
    assert found.diagnostics.c_index == pytest.approx(expected.diagnostics.c_index, abs=1e-9)
    if "spend" in options:
        moments = (fit.release.moments.values for fit in (found, expected))
        np.testing.assert_allclose(*moments, rtol=0, atol=1e-9)
    if "roc" in options.get("spend", ()):
        counts = (fit.release.histogram.counts for fit in (found, expected))
        np.testing.assert_array_equal(*counts)


@EVERY_MEMORY
def test_strata_and_classes_of_persons_are_those_of_a_frame(memory):
    frame = visits()
    source = stream(in_batches(arrow(frame), 7), memory=memory)
    strata = [dplr("y ~ x", data, by="k", **PERSON) for data in (source, frame)]
    for level in "abc":
        np.testing.assert_allclose(*(fit[level].coef for fit in strata), rtol=0, atol=1e-9)
    several = [dpmultinom("k ~ x + z", data, **PERSON) for data in (source, frame)]
    np.testing.assert_allclose(*(fit.coef for fit in several), rtol=0, atol=1e-9)
    assert strata[0]["a"].nobs == several[0].nobs == 200


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("held", [1, 2**25])
def test_pieces_threads_and_passes_change_nothing(limit, held, monkeypatch):
    """Persons have records in several pieces, and their vectors are made in several passes."""
    monkeypatch.setattr(person_sums, "_HELD", held)
    rng = np.random.default_rng(4)
    frame = visits(tuple(rng.integers(1, 4, 60_000)))
    given = {"spend": "inference", "do_scale": False, "records_per_person": 2, **PERSON}
    with threads(limit):
        found = dplr("y ~ x", stream(in_batches(arrow(frame), 999, 70_000), memory=0), **given)
    expected = dplr("y ~ x", frame, **given)
    np.testing.assert_array_equal(found.coef, expected.coef)
    moments = (fit.release.moments.values for fit in (found, expected))
    np.testing.assert_allclose(*moments, rtol=0, atol=1e-12)


def of_persons(kind):
    """A column of Arrow that tells persons apart, with a few who are missing."""
    numbers = np.random.default_rng(1).integers(0, 60, 300)
    gone = numbers == 7
    texts = pa.array([f"person {number:03d}" for number in numbers], mask=gone)
    return {
        "whole": pa.array(numbers),
        "whole with nulls": pa.array(numbers, mask=gone),
        "short with nulls": pa.array(numbers.astype("int16"), mask=gone),
        "unsigned": pa.array(numbers.astype("uint64") + 2**63),
        "doubles": pa.array(np.where(gone, np.nan, np.where(numbers == 0, -0.0, numbers % 30))),
        "two zeros": pa.array(np.resize([0.0, -0.0, 1.0, np.nan], 300), mask=gone),
        "booleans": pa.array(numbers % 2 == 0, mask=gone),
        "texts": texts,
        "long texts": texts.cast(pa.large_string()),
        "views": texts.cast(pa.string_view()),
        "dictionary": texts.dictionary_encode(),
        "runs": pa.compute.run_end_encode(pa.array(np.sort(numbers))),
        "decimals": pa.array(numbers).cast(pa.decimal128(20, 0)),
        "nulls": pa.nulls(300, pa.string()),
    }[kind]


KINDS = [
    *("whole", "whole with nulls", "short with nulls", "unsigned", "doubles", "two zeros"),
    *("booleans", "texts", "long texts", "views", "dictionary", "runs", "decimals", "nulls"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_persons_are_those_of_the_whole_column(kind):
    column = of_persons(kind)
    table = pa.table({"who": column, "y": np.resize([0, 1], 300)})
    tables = [table.slice(a, 37).combine_chunks() for a in range(0, 300, 37)]
    whole = persons.as_batch(table)
    m, expected, _ = persons.with_shares(whole, persons.Person("who"))
    found = persons.owners_in(tables, whole.cut(slice(0)), "who", 300)
    assert found.persons == m
    np.testing.assert_array_equal(found.sizes, np.bincount(found.of_records))
    pairs = np.unique(np.stack([found.of_records, expected]), axis=1)
    assert pairs.shape[1] == m, "each of these is one of those"
    assert found.mark == persons.marked(whole["who"], 0) % 2**64, "pieces do not matter"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("two zeros", "nulls")])
def test_persons_who_change_places_have_another_mark(kind):
    table = pa.table({"who": of_persons(kind)})
    before = persons.marked(persons.as_batch(table)["who"], 0)
    values = table["who"].to_pylist()
    for apart in (1, 64, 128):
        first = next(i for i in range(150) if values[i] != values[i + apart])
        places = np.arange(300)
        places[[first, first + apart]] = places[[first + apart, first]]
        moved = pa.table({"who": persons.decoded(table["who"]).take(places)})
        assert persons.marked(persons.as_batch(moved)["who"], 0) != before


def another_person(frame):
    frame.iloc[7, frame.columns.get_loc("patient")] += 1
    return frame


def of_age(change):
    return lambda frame: change(frame.rename(columns={"x": "age"})).rename(columns={"age": "x"})


FEWER, MORE, VALUE, LABEL, ORDER = (of_age(change) for change in CHANGES)
REFUSED = [FEWER, MORE, ORDER, another_person]


@pytest.mark.parametrize("change", [*REFUSED, VALUE, LABEL])
@pytest.mark.parametrize("after", [3, 4, 5])
def test_a_source_that_changes_between_reads_is_refused(change, after):
    """The first three readings tell the columns, and count the records and their persons."""
    source, readings = changing(visits((2,) * 25), change, after)
    ledger = Ledger(epsilon=3.0, neighbours="person")
    if after == 3 and change not in REFUSED:  # all passes are over one table of these persons
        dplr("y ~ x", stream(source, memory=0), do_scale=False, ledger=ledger, **PERSON)
        return
    with pytest.raises(SchemaError, match="they changed while they were read") as told:
        dplr("y ~ x", stream(source, memory=0), do_scale=False, ledger=ledger, **PERSON)
    assert not re.search(r"\d", str(told.value)), "nothing of how"
    assert len(ledger.entries) == 1
    assert len(readings) <= after + 2


def test_a_source_that_fails_while_persons_are_counted_is_charged_as_the_call():
    """So is one that changes until then, and neither is charged twice."""
    frame = visits((2,) * 25)
    secret = "0.123456789"

    def failing():
        readings.append(1)
        if len(readings) > 2:
            raise ValueError(f"{secret} is in row 20")
        return arrow(frame).to_reader()

    for source in (failing, changing(frame, lambda frame: frame.iloc[1:], 2)[0]):
        readings, ledger = [], Ledger(epsilon=3.0, neighbours="person")
        with pytest.raises(SchemaError) as told:
            dplr("y ~ x", stream(source, memory=0), ledger=ledger, **PERSON)
        assert secret not in str(told.value)
        assert str(told.value).count(". ") == 0
        (entry,) = ledger.entries
        assert entry.label == "records that could not be read"
        assert entry.guarantee == PureDP(1.0, REPLACE_PERSON)


@pytest.mark.parametrize("fails", [False, True])
def test_a_ledger_without_room_refuses_before_records_are_counted(fails):
    """So its refusal tells nothing of a record, whatever the count would give."""
    readings = []

    def source():
        readings.append(1)
        if fails and len(readings) > 1:
            raise ValueError("row 20")
        return arrow(visits((2,) * 25)).to_reader()

    ledger = Ledger(epsilon=0.5, neighbours="person")
    with pytest.raises(GuaranteeError, match=r"what is left is epsilon 0\.5"):
        dplr("y ~ x", stream(source, memory=0), ledger=ledger, **PERSON)
    assert not ledger.entries
    assert len(readings) == 1, "for the columns and their types"


@EVERY_MEMORY
def test_the_number_of_records_is_nowhere(memory):
    given = {"lambda_": 1.0, "spend": "inference", **PERSON}
    tables = (visits((2,) * 20), visits((1,) * 19 + (700,)))
    first, second = (
        dplr("y ~ x + z", stream(in_batches(arrow(table)), memory=memory), **given)
        for table in tables
    )
    assert str(first.calibration) == str(second.calibration)
    assert not any("719" in text for text in (str(second), repr(second), second.card()))


@pytest.mark.parametrize(("kind", "n"), [("numbers", 1_000_000), ("texts", 100_000)])
def test_memory_of_persons_is_a_few_bytes_a_record(kind, n):
    """large.md says how many while numbers are counted, and how many are kept of any persons."""
    m = n // 5
    who = np.random.default_rng(0).permutation(np.resize(np.arange(m), n)) * 10**9
    column = pa.array(who if kind == "numbers" else who.astype(str))
    table = pa.table({"who": column})
    tables = [table.slice(first, 2**14).combine_chunks() for first in range(0, n, 2**14)]
    tracemalloc.start()
    found = persons.owners_in(tables, persons.as_batch(table), "who", n)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.of_records.nbytes + found.sizes.nbytes == 4 * n + 8 * m
    assert kind == "texts" or peak < 24 * n
