"""Tables in files: a line is a record, a cell is read by itself, no type is inferred."""

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import re
import shutil
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr import MissingDependencyError, SchemaError, cli, load_dataset, load_schema, stream
from privatelr.cli import tables
from privatelr.cli.options import read_levels
from privatelr.cli.outcomes import InputError
from privatelr.cli.tables import (
    TextTable,
    in_memory,
    open_table,
    reading_of,
    reading_of_variable,
)
from privatelr.design import Variable

pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")
feather = pytest.importorskip("pyarrow.feather", reason="needs the extra [parquet]")

WANTED = {"a": "numbers", "b": "text", "c": "numbers", "d": "true or false", "e": "text"}
CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), max_size=6)
TELLING = st.sampled_from(
    [
        "",
        "1",
        "-2.5e3",
        "1_0",
        "nan",
        "inf",
        "no",
        " yes ",
        "NA",
        "2.5",
        "x",
        "1.0",
        "+3",
        "-1.",
        "true",
        "FALSE",
        "True",
        "T",
        "1e400",
        "٣",
        "1\u00a0",
        "\x1c2",
        "0x1",
        '"',
        "a\nb",
    ]
)
ROWS = st.lists(
    st.lists(CELLS | TELLING, min_size=len(WANTED), max_size=len(WANTED)), min_size=1, max_size=9
)


def written(rows, separator=",", **how):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", delimiter=separator, **how).writerows([[*WANTED], *rows])
    return text.getvalue().encode()


def read(content, wanted=WANTED, separator=",", decimal=".", encoding="utf-8", **how):
    table = TextTable(io.BytesIO(content), "the file", separator, decimal, encoding)
    return table.read(wanted, **how)[0]


def opened(*paths, wanted, **options):
    """A table of files as lists of values."""
    with open_table([*map(str, paths)], **options) as table:
        found, _ = table.read(wanted)
    return in_memory(found, [*wanted]).to_pydict()


# -- laws of text --------------------------------------------------------------------------------


def expected(cell, how):
    """What a cell is, by the reader of Python; cells are not NUL and no line is special."""
    cell = cell.strip(" \t\n\v\f\r")
    if how == "numbers":
        with suppress(ValueError):
            is_plain = cell.isascii() and "_" not in cell and not cell.startswith("\x1c")
            return float(cell) if is_plain else math.nan
        return math.nan
    if how == "true or false":
        return {"true": True, "false": False}.get(cell.lower()) if cell.isascii() else None
    return cell or None


def alike(one, other):
    return one == other or (one is None and other != other)


@given(ROWS, st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.sampled_from(";\t|,"))
def test_each_cell_is_read_as_if_it_were_alone(rows, quoting, separator):
    """Whatever other records have, and however cells are quoted and separated."""
    found = read(written(rows, separator, quoting=quoting), separator=separator)
    assert len(found) == len(rows)
    types = read(written([[""] * len(WANTED)])).schema
    assert found.schema == types
    for place, (name, how) in enumerate(WANTED.items()):
        for row, value in zip(rows, found[name].to_pylist(), strict=True):
            assert alike(value, expected(row[place], how)), (name, row[place])


def test_blocks_of_any_size_are_read_alike(monkeypatch):
    rows = [
        ["1", 'n"o', "2.5", "true", "a\nb,c"],
        ["", "yes", "x", "", "é"],
    ]
    content = written(rows * 20)
    whole = read(content)
    for size in (64, 200):
        monkeypatch.setattr(tables, "_BLOCK", size)
        assert read(content).to_pydict() == whole.to_pydict()


@pytest.mark.parametrize("name", ["iris", "anes96", "breast_cancer"])
def test_a_written_table_comes_back(name, tmp_path):
    table, levels = load_dataset(name), load_schema(name)["levels"]
    wanted = {column: reading_of(column, levels.get(column)) for column in table.columns}
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for path in ("t.csv", "t.parquet"):
        found = opened(tmp_path / path, wanted=wanted)
        for column in table.columns:
            assert found[column] == list(table[column])


# -- compressions, encodings and commas ----------------------------------------------------------

PACKED = {
    ".gz": partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}
SIZES = {"größe": "numbers", "y": "numbers"}


@pytest.mark.parametrize("ending", PACKED)
def test_a_compressed_table_is_the_table(ending, tmp_path):
    content = "größe\ty\n1\t0\n2.5\t1\n" + "3\t1\n" * 50_000
    (tmp_path / "plain.tsv").write_text(content, encoding="utf-8")
    packed = tmp_path / f"packed.TSV{ending.upper()}"
    parts = [content[:12].encode(), content[12:].encode()]  # in two, as what is appended to is
    packed.write_bytes(b"".join(PACKED[ending](part) for part in parts))
    assert opened(packed, wanted=SIZES) == opened(tmp_path / "plain.tsv", wanted=SIZES)


@pytest.mark.parametrize("ending", PACKED)
def test_a_damaged_file_is_refused_without_a_byte_of_it(ending, tmp_path):
    whole = PACKED[ending](b"a,b\n" + "".join(f"{i},4711\n" for i in range(9999)).encode())
    for content in (whole[: len(whole) // 2], whole[:5], b"a,b\n1,4711\n"):
        path = tmp_path / f"damaged.csv{ending}"
        path.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read, or is damaged") as refusal:
            opened(path, wanted={"a": "numbers"})
        assert "4711" not in str(refusal.value)


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1,5", 1.5), ("-2,5e3", -2500.0), (",5", 0.5), ("3", 3.0), ("inf", math.inf)]
    + [(cell, math.nan) for cell in ("1.5", "1.234,5", "1,2,3", "1 234,5", "", "NA", "1_0")],
)
def test_a_decimal_comma(cell, value):
    wanted = {"a": "numbers"}
    (found,) = read(f"a;b\n{cell};1\n".encode(), wanted, ";", ",")["a"].to_pylist()
    assert alike(found, value)


# -- what is not a table -------------------------------------------------------------------------

PRIVATE = "4711"
MALFORMED = [
    (b"", "there are none"),
    (b"a,b,a\n1,2,3\n", "two columns are called 'a'"),
    (b"4711,4711,x\n1,2,3\n", "the first line takes the column names, and these are numbers"),
    (b",\n1,2\n", "the first line takes the column names, and there are none"),
    (b"a,b\n1,4711\n1,4711,3\n", "record 2 has 3 cells, and the line of names has 2"),
    (b"a,b\n1,4711\n4711\n", "record 2 has 1 cells, and the line of names has 2"),
    (b'a,b\n1,"4711\n2,"4711"\n', "a quote is not closed"),
    (b"a,b\n1,4711\n\xff\xfe,4711\n", "this is not text in UTF-8"),
    ("a,b\n1,2\n".encode("utf-16"), "this is not text in UTF-8"),
    (b"PK\x03\x04\x14\0\0\0\xff", "this is not text in UTF-8"),
]


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize(("content", "words"), MALFORMED, ids=[words for _, words in MALFORMED])
def test_a_file_that_is_not_a_table_is_refused_without_a_byte_of_it(content, words, numbered):
    with pytest.raises(InputError) as refusal:
        read(content, {"a": "numbers"}, numbered=numbered)
    assert (words if numbered else words.replace("record 2", "a record")) in str(refusal.value)
    assert PRIVATE not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["no.csv", "", "\0", "no*.parquet"])
def test_a_file_that_cannot_be_opened(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no such file|cannot be opened"):
        opened(name, wanted={})


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_without_pyarrow_there_is_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / name).touch()
    with pytest.raises(MissingDependencyError, match=r"privatelr\[parquet\]"):
        opened(tmp_path / name, wanted={})


# -- declarations --------------------------------------------------------------------------------


def test_how_a_column_is_read_follows_from_its_declaration():
    assert reading_of("x", None) == reading_of("x", [1, 2.5]) == "numbers"
    assert reading_of("x", [False, True]) == "true or false"
    assert reading_of("x", ["1", "2"]) == "text"
    for levels in (["a", 1], [True, 1], [" a", "b"]):
        with pytest.raises(SchemaError, match=r"levels\['x'\]="):
            reading_of("x", levels)
    assert reading_of_variable(Variable("x", "numeric")) == "numbers"
    assert reading_of_variable(Variable("x", "logical")) == "true or false"
    assert reading_of_variable(Variable("x", "text")) == "text"
    assert reading_of_variable(Variable("x", "categorical", levels=("a", "b"))) == "text"


@pytest.mark.parametrize(
    ("levels", "read"),
    [
        (["0", "1"], [0, 1]),
        (["2.5", "1"], [2.5, 1]),
        (["True", "false"], [True, False]),
        *[
            (levels, levels)
            for levels in (
                ["01", "1"],
                ["1", "1.0"],
                ["low", "2"],
                ["1", "true"],
                ["NaN", "1"],
                [str(2**53), str(2**53 + 1)],
            )
        ],
        ([0, 1], [0, 1]),
    ],
)
def test_levels_that_spell_numbers_are_numbers(levels, read):
    for kind in (None, "int64", "double", "bool"):
        assert read_levels(levels, kind) == read
    assert read_levels(levels, "string") == levels
    assert [*map(type, read_levels(levels, None))] == [*map(type, read)]


# -- Parquet and Feather: the types are the file's own -------------------------------------------


def level_counts(capsys, *line):
    assert cli.main(["check", *line, "--json"]) == 0
    return json.loads(capsys.readouterr().err.partition("\n")[2])["variables"]["x"]


@pytest.mark.parametrize("kind", ["int64", "double", "float", "decimal", "string"])
def test_levels_take_the_type_of_the_column(kind, tmp_path, monkeypatch, capsys):
    """Also in a text, where the levels 1 and 2 go with 1.0 and 2.0."""
    monkeypatch.chdir(tmp_path)
    kinds = {"decimal": pa.decimal128(21, 1)}
    grades = pa.array([1, 2, 7, None]).cast(kinds.get(kind, kind))
    pq.write_table(pa.table({"y": [True, False, True, True], "x": grades}), "t.parquet")
    (tmp_path / "t.csv").write_text("y,x\n1,1.0\n0,2\n1,7\n1,\n")
    line = ["y ~ x", "--bounds", "y=0:1", "--levels", "x=2,1"]
    for path in ("t.parquet", "t.csv"):
        counts = level_counts(capsys, path, *line)
        assert (counts["missing"], counts["undeclared"]) == (1, 1), (path, counts)


@pytest.mark.parametrize("path", ["t.parquet", "t.csv"])
def test_levels_with_blanks_at_their_ends_are_refused(path, tmp_path, monkeypatch, capsys):
    """Cells of a text lose theirs, and those of other files keep them."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"y": [True, False], "x": [" a", "b"]}), "t.parquet")
    (tmp_path / "t.csv").write_text("y,x\n1, a\n0,b\n")
    assert cli.main(["fit", path, "y ~ x", "--levels", "y=0,1", "--levels", "x= a ,b"]) == 2
    assert "all texts without a blank at their ends" in capsys.readouterr().err


# -- several files -------------------------------------------------------------------------------

FORMULA = "y ~ age + sex + grade + ok"
DECLARED = ["--bounds", "age=18:90", "--levels", "sex=f,m", "--levels", "grade=1,2,3"]
DECLARED += ["--bounds", "y=0:1", "--levels", "ok=No,Yes"]


def made_up(n=600):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "y": rng.integers(0, 2, n),
            "age": pa.array(rng.uniform(15, 95, n), mask=rng.random(n) < 0.1),
            "sex": pa.array(rng.choice(["f", "m", "x"], n)).dictionary_encode(),
            "grade": pa.array(rng.integers(1, 5, n), mask=rng.random(n) < 0.1),
            "ok": pa.array(rng.choice(["No", "Yes"], n), pa.large_string()),
            "unused": pa.array([[1]] * n),
        }
    )


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """One table as one file, and as three files in a folder, one of which has no record."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    table = made_up()
    pq.write_table(table, "whole.parquet", row_group_size=100)
    for name, piece in (("a", table[:250]), ("b", table[:0]), ("c", table[250:])):
        pq.write_table(piece, f"parts/{name}.parquet")
    return tmp_path


WAYS = [
    ["whole.parquet"],
    ["parts/a.parquet", "parts/b.parquet", "parts/c.parquet"],
    ["parts"],
    ["parts/[ab].parquet", "parts/c*.parquet"],
]


def test_several_files_are_one_table(parts, capsys):
    """For every command that takes several: what it says and what it prints."""
    (parts / "s.toml").write_text(f'formula = "{FORMULA}"\n', "utf-8")
    seeded = ["--seed", "1", "--json"]
    found = {}
    for paths in WAYS:
        for line in (
            ["fit", *paths, FORMULA, *DECLARED, *seeded, "--out", "m.json", "--force"],
            ["fit", *paths, "--schema", "s.toml", *DECLARED, *seeded],
            ["check", *paths, FORMULA, *DECLARED, "--json"],
            ["predict", "m.json", *paths],
            ["schema", "init", *paths, "--json"],
            ["roc", "m.json", *paths, "--eps", "1", *seeded],
        ):
            assert cli.main(line) == 0
            told = capsys.readouterr()
            found.setdefault(line[0], set()).add((told.out, told.err))
    assert {command: len(all_told) for command, all_told in found.items()} == dict.fromkeys(
        found, 1
    )


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (lambda: pq.write_table(pa.table({"y": ["4711"]}), "parts/b.parquet"), "types|column"),
        (lambda: Path("parts/a.parquet").write_bytes(b"4711"), "could not be"),
    ],
)
def test_files_that_do_not_fit_together_are_one_sentence(planted, words, parts, capsys):
    planted()
    for paths in WAYS[1:]:
        assert cli.main(["fit", *paths, "y ~ age", *DECLARED[:2], "--bounds", "y=0:1"]) == 2
        told = capsys.readouterr()
        assert re.search(words, told.err)
        assert "4711" not in told.err
        assert not told.out
        assert len(told.err.splitlines()) <= 2


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "dictionary"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_texts_are_texts_however_arrow_spells_them(kind, ending, coded, parts, capsys):
    if coded and kind == pa.string_view() and ending == "parquet":
        pytest.skip("pyarrow does not write it")
    texts = pa.chunked_array([pa.array(["f", "m", None, "x"] * 25, pa.string())])
    if coded:
        codes = pa.array([0, 1, None, 2] * 25, pa.int32())
        values = pa.array(["f", "m", "x"]).cast(kind)
        texts = pa.chunked_array([pa.DictionaryArray.from_arrays(codes, values)])
    table = pa.table({"y": [True, False] * 50, "sex": texts if coded else texts.cast(kind)})
    if ending == "parquet":
        pq.write_table(table, "t.parquet")
    else:
        feather.write_feather(table, "t.feather", compression="uncompressed")
    assert cli.main(["check", f"t.{ending}", "y ~ sex", "--levels", "sex=f,m", "--json"]) == 0
    told = json.loads(capsys.readouterr().err.partition("\n")[2])["variables"]["sex"]
    assert told["undeclared"] == told["missing"] == 25


def test_files_are_found_as_a_stream_finds_them(parts, capsys):
    """A file whose own name looks like a pattern is that file; `.ipc` is Feather for both."""
    pq.write_table(made_up()[:400], "whole[1].parquet")
    feather.write_feather(made_up()[:400], "whole.ipc", compression="uncompressed")
    shutil.copy("parts/a.parquet", "whole1.parquet")
    said = []
    for data in ("whole[1].parquet", "whole.ipc", "*.ipc"):
        assert stream(data).count() == 400
        assert cli.main(["check", data, "y ~ age", *DECLARED, "--json"]) == 0
        said.append(capsys.readouterr().err)
    assert len(set(said)) == 1
    (parts / "all" / "site=7").mkdir(parents=True)
    shutil.copy("parts/a.parquet", "all/site=7/a.parquet")
    assert cli.main(["schema", "init", "all/*/*.parquet"]) == 0
    assert "# site = " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (["whole.parquet", "./whole.parquet"], "is named twice"),
        (["parts/*.parquet", "parts/a.parquet"], "is named twice"),
        (["whole.parquet", "link.parquet"], "is named twice"),
        (["whole.parquet", "parts"], "a folder is a table of its own"),
        (["whole.parquet", "-"], "standard input is a table of its own"),
        (["a.csv", "b.csv"], "convert them, or pass one."),
        (["a.csv", "whole.parquet"], "convert them, or pass one."),
        (["*.csv"], "convert them, or pass one."),
    ],
)
def test_several_files_that_are_not_one_table(data, words, parts, capsys):
    (parts / "link.parquet").symlink_to("whole.parquet")
    for name in ("a", "b"):
        (parts / f"{name}.csv").write_text("y,age\n1,20\n0,30\n", "utf-8")
    assert cli.main(["fit", *data, "y ~ age", *DECLARED]) == 2
    assert words in capsys.readouterr().err
