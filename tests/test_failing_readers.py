"""Readers and engines that raise an error at one record: it is paid for, replaced and forgotten."""

import gc
import re
import weakref

import pyarrow as pa
import pyarrow.dataset
import pytest
from frames_for_laws import FORMULA, SCHEMA, clinic

import privatelr as lr
from privatelr.errors import SchemaError, redact_errors

FRAME = clinic(200)
FIT = lr.dplr(FORMULA, FRAME, eps=1.0, **SCHEMA)
NUMBER = next(iter(SCHEMA["bounds"]))
DOORS = {
    "fit": lambda data: lr.dplr(FORMULA, data, eps=1.0, **SCHEMA),
    "selection": lambda data: lr.dpsimplex(FORMULA, data, eps=1.0, **SCHEMA),
    "bounds": lambda data: lr.suggest_bounds(data, {NUMBER: (0, 200)}, eps=1.0),
    "levels": lambda data: lr.levels_from(data, NUMBER, eps=1.0, delta=1e-6),
    "answer": lambda data: FIT.private_roc(data, eps=1.0),
    "choice": lambda data: lr.choose({"a": FIT, "b": FIT}, data, eps=1.0),
}


class SecretError(ValueError):
    """An error that quotes a record."""


class Failing:
    """Sources of the same table, which fail at one record from some reading on."""

    def __init__(self, good, error=SecretError):
        self.left, self.error, self.errors = good, error, []

    def look(self, values, place=0):
        """Return the values of a reading; the first ones tell a new reading."""
        self.left -= place == 0
        if self.left < 0 and place > 0:
            error = self.error("record 150 is HIV+")
            self.errors.append(weakref.ref(error))
            raise error
        return values

    def of_arrow(self):
        table = pa.Table.from_pandas(FRAME, preserve_index=False)

        def batches():
            for place, batch in enumerate(table.to_batches(100)):
                yield self.look(batch, place)

        self.left += 1  # the first reader is asked for names and types alone, and is not read
        return lambda: pa.RecordBatchReader.from_batches(table.schema, batches())

    def of_dask(self):
        dask = pytest.importorskip("dask.dataframe")

        def part(place):
            return self.look(FRAME[100 * place : 100 * (place + 1)], place)

        return dask.from_map(part, [0, 1], meta=FRAME[:0])

    def of_polars(self):
        pl = pytest.importorskip("polars")

        def seen(values):
            self.look(values)
            return self.look(values, place=1)

        column = pl.col(NUMBER).map_batches(seen, return_dtype=pl.Float64)
        return pl.from_pandas(FRAME.astype({NUMBER: float})).lazy().with_columns(column)


@pytest.mark.parametrize("good", [0, 1])
@pytest.mark.parametrize("source", ["of_arrow", "of_dask", "of_polars"])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore::privatelr.PrivacyWarning")
def test_a_reader_that_fails_at_a_record_is_charged_and_its_error_is_gone(door, source, good):
    failing = Failing(good)
    data = getattr(failing, source)()
    with lr.Ledger(9.0, 1e-3) as ledger:
        try:
            DOORS[door](data)
        except SchemaError as error:
            kept = error
        else:  # few passes: the table was kept, or its length was known
            assert good
            assert not failing.errors
            return
    gc.collect()  # polars and Arrow keep an error until it was thrown
    assert failing.errors
    assert [error() for error in failing.errors] == [None] * len(failing.errors)
    assert kept.__context__ is None
    assert "HIV" not in str(kept)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("source", ["of_arrow", "of_dask", "of_polars"])
@pytest.mark.parametrize(
    "error",
    [
        *(SchemaError, lr.GuaranteeError, lr.NotConvergedError, KeyError, SystemExit),
        *(type("SecretError", (kind,), {}) for kind in (Exception, BaseException)),
    ],
)
def test_no_class_of_error_passes(error, source):
    """Not of this package, whose errors a reader has at hand, and not of those that end Python."""
    if source == "of_dask" and error.__base__ is BaseException:
        pytest.skip("Dask passes it through its threads")
    data = getattr(Failing(0, error), source)()
    with pytest.raises(SchemaError, match=r"could not be (read|counted|converted)") as told:
        lr.dplr(FORMULA, data, eps=1.0, spend="inference", **SCHEMA)
    assert told.value.__context__ is None
    assert not re.search("HIV|Secret", str(told.value))


@pytest.mark.parametrize("source", ["of_arrow", "of_polars"])
def test_a_reader_that_fails_in_a_prediction_is_forgotten(source):
    failing = Failing(0)
    failing.left -= 1  # a prediction has one pass
    with pytest.raises(SchemaError) as told:
        FIT.predict(getattr(failing, source)())
    assert told.value.__context__ is None
    assert failing.errors


def test_a_count_that_works_is_followed_by_every_public_refusal_before_the_charge():
    """The records are counted first, because a price may be too small for them."""
    failing = Failing(9)
    with lr.Ledger(9.0, 1e-3) as ledger, pytest.raises(lr.GuaranteeError):
        lr.levels_from(failing.of_arrow(), NUMBER, eps=1e-3, delta=1e-9)
    assert ledger.entries == ()


def refused():
    try:
        raise SecretError("HIV+")
    except SecretError:
        raise SchemaError("data: a column is missing") from None


def test_errors_on_purpose_lose_what_they_were_raised_in_place_of():
    with pytest.raises(SchemaError) as told, redact_errors("it could not be read"):
        refused()
    assert told.value.__context__ is None


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("cell", ["1.5", "N/K"])
def test_files_whose_values_decide_their_types_are_refused(kind, cell, tmp_path):
    """One cell of one file would otherwise make the difference between a fit and an error."""
    texts = {"csv": "x,y\n{},0\n", "json": '{{"x": "{}", "y": 0}}\n'}
    (tmp_path / f"a.{kind}").write_text(texts[kind].format(cell) * 9, encoding="utf-8")
    ledger = lr.Ledger(1.0)
    data = pyarrow.dataset.dataset(tmp_path, format=kind)
    with pytest.raises(SchemaError, match="reads types off the values"):
        lr.dplr("y ~ x", data, eps=1.0, bounds={"x": (0, 9), "y": (0, 1)}, ledger=ledger)
    assert ledger.spent() == 0
