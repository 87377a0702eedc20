"""Files and folders as data: which of them count, and what is wrong with them, said unpaid."""

import os

import numpy as np
import pytest
from frames_for_laws import FORMULA, SCHEMA, FixedRandomness
from repeated_noise import trial
from streams_for_tests import EVERY_MEMORY, KEPT, arrow, ds, pa

import privatelr.fitting
from privatelr import Ledger, SchemaError, dplr, stream
from privatelr.sources import as_stream

feather = pytest.importorskip("pyarrow.feather", reason="needs the extra [parquet]")
fs = pytest.importorskip("pyarrow.fs", reason="needs the extra [parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")
TABLE = arrow(trial(300))
PARTS = np.repeat(range(3), 100)


@pytest.fixture(autouse=True)
def _one_noise(monkeypatch):
    monkeypatch.setattr(privatelr.fitting, "SystemRandomness", FixedRandomness)


def expected():
    return dplr(FORMULA, TABLE, **SCHEMA).coef


def check_same(data, memory=KEPT):
    found = dplr(FORMULA, stream(data, memory=memory), **SCHEMA).coef
    np.testing.assert_allclose(found, expected(), rtol=0, atol=1e-9)


def parts(folder, write=pq.write_table, ending=".parquet"):
    folder.mkdir()
    for number in range(3):
        write(TABLE.slice(100 * number, 100), str(folder / f"{number}{ending}"))
    return folder


# -- which files count ----------------------------------------------------------------------------


@EVERY_MEMORY
@pytest.mark.parametrize(
    ("write", "ending"), [(pq.write_table, ".pq"), (feather.write_feather, ".feather")]
)
def test_a_folder_a_pattern_and_a_list_are_the_same_records(tmp_path, write, ending, memory):
    folder = parts(tmp_path / "parts", write, ending)
    (folder / "README.txt").write_text("not a table", encoding="utf-8")
    (folder / "_SUCCESS").touch()
    (folder / f".hidden{ending}").write_bytes(b"")
    files = sorted(folder.glob(f"[0-9]*{ending}"))
    patterns = [folder / f"[01]{ending}", str(folder / f"2*{ending}")]
    for data in (folder, str(folder / f"[0-9]*{ending}"), files, list(map(str, files)), patterns):
        check_same(data, memory)


TWICE = "is named twice, where links are names, too; name each file once"


def test_a_second_name_of_a_file_is_refused(tmp_path):
    """Its records would count twice, and so would each of them in what is promised."""
    folder = parts(tmp_path / "parts")
    os.symlink(folder / "1.parquet", tmp_path / "again.parquet")
    os.symlink(folder / "1.parquet", folder / "more.parquet")
    for data in (
        folder,
        str(folder / "*.parquet"),
        sorted(map(str, folder.glob("*.parquet"))),
        [folder / "1.parquet", tmp_path / "again.parquet"],
    ):
        with pytest.raises(SchemaError, match=TWICE):
            dplr(FORMULA, data, **SCHEMA)


def test_links_and_row_groups_that_are_read_once_are_data(tmp_path):
    folder = parts(tmp_path / "parts")
    (tmp_path / "names").mkdir()
    for file in folder.glob("*.parquet"):
        (tmp_path / "names" / file.name).symlink_to(file)
    check_same(tmp_path / "names")
    groups, how = row_groups(tmp_path / "whole.parquet")
    check_same(ds.FileSystemDataset(groups, *how))


def row_groups(file):
    """Three parts of a file, and what makes a dataset of them."""
    pq.write_table(TABLE, file, row_group_size=100)
    (whole,) = ds.dataset(file).get_fragments()
    groups = [whole.subset(row_group_ids=[number]) for number in range(3)]
    return groups, (whole.physical_schema, whole.format, whole.filesystem)


@EVERY_MEMORY
def test_records_of_row_groups_are_those_that_are_read(tmp_path, memory):
    """pyarrow counts the records of their whole file."""
    groups, how = row_groups(tmp_path / "whole.parquet")
    last = ds.FileSystemDataset(groups[2:], *how)
    first = ds.dataset(TABLE.slice(0, 100))
    outer = ds.FileSystemDataset([groups[0], groups[2]], *how)
    expected = dplr(FORMULA, TABLE.filter(pa.array([True, False, True]).take(PARTS)), **SCHEMA)
    few = dplr(FORMULA, TABLE.slice(200), **SCHEMA)
    for data, same in (
        (outer, expected),
        (ds.dataset([first, last]), expected),
        (ds.dataset([first, last]).filter(ds.scalar(True)), expected),
        (last.filter(ds.scalar(True)), few),
    ):
        found = dplr(FORMULA, stream(data, memory=memory), **SCHEMA)
        assert found.nobs == same.nobs
        np.testing.assert_allclose(found.coef, same.coef, rtol=0, atol=1e-9)


@EVERY_MEMORY
def test_columns_that_folders_tell_are_those_of_a_pattern_and_a_list(tmp_path, memory):
    for smoker in ("no", "yes"):
        part = TABLE.filter(pa.compute.equal(TABLE["smoker"], smoker))
        (tmp_path / f"smoker={smoker}").mkdir()
        pq.write_table(part.drop_columns("smoker"), tmp_path / f"smoker={smoker}" / "0.parquet")
    files = sorted(map(str, tmp_path.glob("*/*.parquet")))
    each = [f"{tmp_path}/smoker=n*/*.parquet", f"{tmp_path}/smoker=y*/*.parquet"]
    for data in (tmp_path, f"{tmp_path}/*/*.parquet", f"{tmp_path}/**/*.parquet", files, each):
        check_same(data, memory)


def test_folders_above_tell_no_column(tmp_path):
    inside = tmp_path / "age=70"
    inside.mkdir()
    folder = parts(inside / "parts")
    for data in (folder, folder / "*.parquet", [*folder.iterdir()], folder / "0.parquet"):
        assert set(as_stream(data).columns) == set(TABLE.column_names)


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("Delta", "_delta_log/0.json"),
        ("Iceberg", "metadata/v1.metadata.json"),
        ("Hudi", ".hoodie/hoodie.properties"),
    ],
)
def test_files_of_a_table_with_a_log_are_refused(tmp_path, name, log):
    """The folder also has the files of records that were deleted."""
    folder = parts(tmp_path / "data")
    (tmp_path / log).parent.mkdir()
    (tmp_path / log).touch()
    for data in (folder, folder / "0.parquet", folder / "*.parquet", [folder / "1.parquet"]):
        with pytest.raises(SchemaError, match=f"the {name} table in .*Hand over an Arrow dataset"):
            dplr(FORMULA, data, **SCHEMA)


@pytest.mark.parametrize("way", ["toArrow", "to_pyarrow_dataset", "to_arrow", "collect"])
def test_a_table_of_another_engine_is_told_what_makes_arrow_of_it(way):
    table = type("DataFrame", (), {way: lambda self: TABLE})()
    with pytest.raises(SchemaError, match=rf"DataFrame \(call {way}\(\) on it first\)"):
        dplr(FORMULA, table, **SCHEMA)


# -- what is wrong with them ----------------------------------------------------------------------


def other_type(folder):
    own = TABLE.set_column(0, TABLE.field(0).name, TABLE.column(0).cast(pa.float32()))
    pq.write_table(own, folder / "1.parquet")
    return f"1.parquet' has the column '{TABLE.field(0).name}' as float"


def nothing_but_nulls(folder):
    own = TABLE.set_column(0, TABLE.field(0).name, pa.nulls(len(TABLE)))
    pq.write_table(own, folder / "1.parquet")
    return f"1.parquet' has the column '{TABLE.field(0).name}' as null"


def one_column_less(folder):
    pq.write_table(TABLE.drop_columns("age"), folder / "1.parquet")
    return "1.parquet' has no column 'age'"


def first_has_less(folder):
    pq.write_table(TABLE.drop_columns("age"), folder / "0.parquet")
    return "0.parquet' has no column 'age'"


def no_table(folder):
    (folder / "2.parquet").write_bytes(b"age")
    return "2.parquet' could not be read"


def first_is_no_table(folder):
    (folder / "0.parquet").write_bytes(b"age")
    return "0.parquet' could not be read"


@EVERY_MEMORY
@pytest.mark.parametrize(
    "plant",
    [other_type, nothing_but_nulls, one_column_less, first_has_less, no_table, first_is_no_table],
)
def test_a_wrong_file_is_named_before_anything_is_charged(tmp_path, plant, memory):
    folder = parts(tmp_path / "parts")
    said, ledger = plant(folder), Ledger(1.0)
    for data in (folder, folder / "*.parquet", sorted(folder.iterdir())):
        with pytest.raises(SchemaError, match=said):
            dplr(FORMULA, stream(data, memory=memory), ledger=ledger, **SCHEMA)
    assert len(ledger.entries) == 0


def test_a_user_may_say_that_a_column_of_a_dataset_came_later(tmp_path):
    folder = parts(tmp_path / "parts")
    one_column_less(folder)
    with pytest.raises(SchemaError, match="no column 'age'"):
        dplr(FORMULA, folder, **SCHEMA)
    told = ds.dataset(folder, schema=TABLE.schema)
    assert dplr(FORMULA, told, **SCHEMA).nobs == told.count_rows()


def test_a_path_stands_where_a_frame_does(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    folder, bounds = str(parts(tmp_path / "parts")), {"bounds": {**SCHEMA["bounds"], "y": (0, 1)}}
    of_frame = dplr(TABLE.select(["age", "dose", "y"]), target="y", **bounds).coef
    (tmp_path / "few").mkdir()
    for name in (f"{folder}/few.pq", str(tmp_path / "few" / "0.pq")):
        pq.write_table(TABLE.select(["age", "dose", "y"]), name)
    for path in (f"{folder}/few.pq", "~/parts/few.pq", "~/parts/few*.pq", "~/few"):
        np.testing.assert_allclose(dplr(path, target="y", **bounds).coef, of_frame, atol=1e-9)
    for path in ("~/nowhere.parquet", "s3://here/t.parquet", "s3://here/"):
        for given in ({"formula": "y ~ age", "data": path}, {"formula": path, "target": "y"}):
            with pytest.raises(SchemaError, match=r"no such file|made with the filesystem"):
                dplr(**given, **bounds)


FOLDER = r"a folder is a table of its own: hand over it alone, or a pattern of its files"
PATTERN = r"a pattern of files ends in \.parquet or \.feather, as in 'visits/\*\.parquet'"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (["0.parquet", "inner"], f"data='inner': {FOLDER}, such as 'inner/\\*.parquet'"),
        (["0.parquet", "./in*"], f"data='./in\\*': it stands for the folder './inner'; {FOLDER}"),
        ("*/*.parquet", f"it stands for the folder 'inner/9.parquet'; {FOLDER}"),
        ("**/*.parquet", f"it stands for the folder 'inner/9.parquet'; {FOLDER}"),
        ([], r"data of type list: .*, or a list of files that end in \.parquet or \.feather"),
        (["inner"], r"data of type list: .*, or a list of files that end in \.parquet"),
        ("f.*", PATTERN),
        ("inner/*", PATTERN),
        ("nothing/*", PATTERN),
        (["0.parquet", "f.*"], r"as their endings say, and '.*f\.csv' is neither; convert them"),
        (["0.parquet", 3], r"data of type list"),
    ],
)
def test_what_names_no_files_is_told_what_to_be(tmp_path, monkeypatch, data, said):
    """Before anything is charged, and by the same words where `stream` takes it."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "0.parquet")
    (tmp_path / "inner" / "9.parquet").mkdir(parents=True)
    pq.write_table(TABLE, "inner/9.parquet/1.parquet")
    for name in ("f.csv", "f.txt"):
        (tmp_path / name).touch()
    ledger = Ledger(1.0)
    with pytest.raises(SchemaError, match=said):
        dplr(FORMULA, data, ledger=ledger, **SCHEMA)
    assert len(ledger.entries) == 0
    if data == ["inner"]:
        check_same(data)
    else:
        with pytest.raises(SchemaError, match=said):
            stream(data)


def test_a_response_of_texts_is_no_list_of_files():
    """What one record has would decide else what becomes of the call."""
    covariates = trial(3)[["age"]]
    said = []
    for text in ("yes", "yes.parquet"):
        with pytest.raises(Exception, match="levels") as told:
            dplr([text, "no", "no"], covariates, eps=1.0, bounds={"age": (18, 90)})
        said.append(str(told.value))
    assert said[0] == said[1]


# -- functions ------------------------------------------------------------------------------------


def test_a_reader_that_was_read_is_refused_before_anything_is_charged():
    reader, ledger = TABLE.to_reader(), Ledger(1.0)
    with pytest.raises(SchemaError, match=r"no new pyarrow\.RecordBatchReader"):
        dplr(FORMULA, lambda: reader, ledger=ledger, **SCHEMA)
    assert len(ledger.entries) == 0


# -- memory ---------------------------------------------------------------------------------------
