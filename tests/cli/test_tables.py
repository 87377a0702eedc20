"""Tables in files: a line is a record, a cell is read by itself, no type is inferred."""

import bz2
import csv
import gzip
import io
import lzma
import math
import sys
from functools import partial

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privatelr import MissingDependencyError, SchemaError, load_dataset, load_schema
from privatelr.cli.outcomes import InputError
from privatelr.cli.tables import (
    UNDECLARED,
    DeclaredColumn,
    by_levels,
    by_variable,
    csv_blocks,
    csv_tables,
    describe,
    open_table,
)
from privatelr.cli.tables.csv_tables import CsvTable, number
from privatelr.design import Variable

WANTED = {
    "a": DeclaredColumn("numbers"),
    "b": DeclaredColumn("text", ("no", "yes", "NA")),
    "c": DeclaredColumn("numbers", (0, 2.5)),
    "d": DeclaredColumn("true or false"),
    "e": DeclaredColumn("text"),
    "f": DeclaredColumn("true or false", (True, False)),
}
CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\n\0"), max_size=6)
TELLING = st.sampled_from(["", "1", "-2.5e3", "1_0", "nan", "inf", "no", " yes ", "NA", "2.5", "x"])
TRUTHS = st.sampled_from(["true", "FALSE", "True", "T", "1"])
ROWS = st.lists(
    st.lists(CELLS | TELLING | TRUTHS, min_size=len(WANTED), max_size=len(WANTED)), min_size=1
)


def written(rows, separator=","):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", delimiter=separator).writerows([list(WANTED), *rows])
    return text.getvalue().encode()


def read(content, wanted=WANTED, separator=","):
    return CsvTable(io.BytesIO(content), "the file", separator).read(wanted)[0]


def same(one, other):
    return bool(pd.isna(other) if pd.isna(one) else one == other)


# -- laws of text ----------------------------------------------------------------------------


@given(ROWS)
def test_each_record_is_read_as_if_it_were_alone(rows):
    together = read(written(rows))
    assert len(together) == len(rows)
    for index, row in enumerate(rows):
        alone = read(written([row]))
        assert together.dtypes.equals(alone.dtypes)
        assert all(map(same, together.iloc[index], alone.iloc[0]))


def test_a_reader_that_infers_types_breaks_that_law():
    rows = [["1", "no", "0", "true", "x", "true"], ["odd", "no", "0", "true", "x", "true"]]
    together, alone = (pd.read_csv(io.BytesIO(written(part))) for part in (rows, rows[:1]))
    assert not together.dtypes.equals(alone.dtypes)


@given(ROWS, st.sampled_from([";", "\t", "|", ","]))
def test_the_separator_changes_nothing(rows, separator):
    pd.testing.assert_frame_equal(
        read(written(rows, separator), separator=separator), read(written(rows))
    )


@pytest.mark.parametrize("name", ["iris", "anes96", "breast_cancer"])
def test_a_written_table_comes_back(name, tmp_path):
    table, levels = load_dataset(name), load_schema(name)["levels"]
    table.to_csv(tmp_path / "table.csv", index=False)
    wanted = {column: by_levels(column, levels.get(column)) for column in table.columns}
    expected = table.astype({c: float for c in table.columns if c not in levels})
    with open_table(str(tmp_path / "table.csv"), None) as opened:
        frame, _ = opened.read(wanted)
    for column in table.columns:
        assert list(frame[column]) == list(expected[column])


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1", 1.0), ("-2.5e3", -2500.0), (".5", 0.5), ("+3", 3.0), ("1e400", math.inf)]
    + [(cell, math.nan) for cell in ("", "1,5", "1_000", "NA", "0x10", "yes", "1 2", "--1")],
)
def test_numbers(cell, value):
    assert same(number(cell), value)


def test_cells_are_what_they_were_declared_to_be():
    row = [" 3 ", '" NA"', "2.50", "TRUE", "7", "False"]
    found = read(f"{','.join(WANTED)}\n{','.join(row)}\n".encode()).iloc[0]
    assert list(found) == [3.0, "NA", 2.5, True, "7", False]
    found = read(f"{','.join(WANTED)}\nx,No,0.1,1,,\n".encode()).iloc[0]
    assert list(found[found.notna()].items()) == [("b", UNDECLARED), ("c", UNDECLARED)]


def test_windows_files_and_byte_order_marks():
    content = '\ufeffa,"größe, m"\r\n1,2\r\n3,4'.encode()
    wanted = {"a": DeclaredColumn("numbers"), "größe, m": DeclaredColumn("numbers")}
    assert read(content, wanted).to_numpy().tolist() == [[1, 2], [3, 4]]


def test_columns_without_a_name_are_not_for_formulas():
    table = CsvTable(io.BytesIO(b'"",x,,y\n1,2,3,4\n'), "the file", ",")
    assert table.names == ("x", "y")
    frame, _ = table.read({"x": DeclaredColumn("numbers"), "y": DeclaredColumn("numbers")})
    assert frame.to_numpy().tolist() == [[2, 4]]


def test_a_table_without_records_is_a_table():
    frame = read(
        b"a,b\n", {"a": DeclaredColumn("numbers"), "b": DeclaredColumn("text", ("x", "y"))}
    )
    assert frame.shape == (0, 2)


# -- blocks of lines -------------------------------------------------------------------------

PLAIN = st.sampled_from(
    ["+3", "-1.", ".5", "1e5", "1E-300", "1e400", "٣", "1\u00a0", "\x1c2", "0x1"]
)
ODD_LINES = st.sampled_from(
    ['"', '""', " ", ",", '1,"a,b",0,true,x,T', "", "\0", "\r", "é", "\xff"]
)


@given(
    st.lists(st.lists(CELLS | TELLING | TRUTHS | PLAIN, min_size=6, max_size=6), max_size=9),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.none() | st.tuples(ODD_LINES, st.integers(0, 9)),
)
def test_blocks_are_read_as_their_lines_are(rows, quoting, separator, ending, odd):
    """The same frame, or the same refusal, whether pyarrow splits lines or nothing does."""
    text = io.StringIO()
    how = {"lineterminator": ending, "delimiter": separator, "quoting": quoting}
    csv.writer(text, **how).writerows([list(WANTED), *rows])
    lines = text.getvalue().encode().splitlines(keepends=True)
    if odd is not None:
        lines.insert(1 + min(odd[1], len(rows)), odd[0].encode("latin-1") + b"\n")
    require_alike(b"".join(lines), separator, 40)


def require_alike(content, separator, size):
    """Compare both readers, one of which gets blocks of this many bytes, or little more."""
    found = []
    for splits in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_blocks, "_BLOCK", size)
            patch.setattr(csv_tables, "can_split", lambda *_, splits=splits: splits)
            try:
                found.append(read(content, separator=separator))
            except InputError as refusal:
                found.append(str(refusal))
    if isinstance(found[0], str):
        assert found[0] == found[1]
    else:
        pd.testing.assert_frame_equal(*found)


MARKS = st.sampled_from(["", "\ufeff"]) | st.sampled_from("\ufeff\ufffe\x1a\x0b\x85\u2028\\#")
CONTROLS = st.sampled_from([*[""] * 20, *'\0\r\n "'])
PLAIN_LINES = st.sampled_from(["1,no,0,true,x,T", ",,,,,", "2,yes,2.5,false,,1"])
BREAKS = st.sampled_from(["\n", "\r\n"])


@given(
    st.lists(st.tuples(CONTROLS, MARKS, PLAIN_LINES, MARKS, CONTROLS, BREAKS), max_size=4),
    st.integers(1, 40),
    st.booleans(),
)
def test_no_byte_at_the_ends_of_a_block_is_read_in_another_way(lines, size, is_cut):
    """Marks, breaks and control codes where a block of any size starts and ends."""
    text = "".join(map("".join, lines)).removesuffix("\n" if is_cut else "")
    require_alike(f"{','.join(WANTED)}\n{text}".encode(), ",", size)


def test_a_mark_within_a_table_belongs_to_its_cell():
    """Wherever blocks end: it has no place but at the start of a file, where editors put it."""
    for size in (1, 6, 7, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_blocks, "_BLOCK", size)
            found = read("a,b\n1,no\n\ufeff2,no\n3,no\n".encode(), {"a": WANTED["a"]})
        assert found["a"].isna().tolist() == [False, True, False], size


def test_blanks_are_those_of_python():
    """All of them but the two that end a line, so that cells are what `str.strip` leaves."""
    every = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
    assert sorted(csv_blocks._SPACES + "\r\n") == sorted(every)


def test_plain_lines_are_split_by_pyarrow():
    """Numbers, levels, texts, and quotes as R writes them; and a quote that is odd is not."""
    taken = partial(csv_blocks.plain_cells, separator=",", width=2, places={0: False, 1: False})
    for block in (b"1,a\n2,b\n", b'"1","a"\r\n"2","b"', b' 1 ,a\n2,"b "\n'):
        cells = taken(block)
        assert [cells[place].to_pylist() for place in (0, 1)] == [["1", "2"], ["a", "b"]]
    odd = [
        b'1,"a\n2,b"\n',
        b'1,"a,b"\n',
        b'"1"2,b\n',
        b"1\n",
        b"\n",
        b'""\n',
        b"1,\xff\n",
        b"1,2\r",
    ]
    assert [block for block in odd if taken(block) is not None] == []


def test_pyarrow_gets_no_more_than_it_splits_alike(monkeypatch):
    """Without quotes that are odd, two records would be others; the law above would see it."""
    content = b'a,b\n1,"x\n2,y"\n'
    wanted = {"a": DeclaredColumn("numbers"), "b": DeclaredColumn("text")}
    with pytest.raises(InputError, match="line 2: a quote is not closed"):
        read(content, wanted)
    monkeypatch.setattr(csv_blocks, "_without_quotes", lambda block, _: block.replace(b'"', b""))
    assert len(read(content, wanted)) == 2


# -- compressed files ------------------------------------------------------------------------

PACKED = {
    ".gz": partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: pytest.importorskip(
        "pyarrow", reason="needs the extra [parquet]"
    ).compress(content, "zstd", asbytes=True),
}
SIZES = {"größe": DeclaredColumn("numbers"), "y": DeclaredColumn("numbers")}


def opened(path, wanted=SIZES, separator=None, **options):
    with open_table(str(path), separator, **options) as table:
        return table.read(wanted)[0]


@pytest.mark.parametrize("ending", PACKED)
def test_a_compressed_table_is_the_table(ending, tmp_path):
    content = "größe\ty\n1\t0\n2.5\t1\n" + "3\t1\n" * 50_000
    (tmp_path / "plain.tsv").write_text(content, encoding="utf-8")
    packed = tmp_path / f"packed.TSV{ending.upper()}"
    # in two parts, as what is appended to is
    parts = [content[:12].encode(), content[12:].encode()]
    packed.write_bytes(b"".join(PACKED[ending](part) for part in parts))
    pd.testing.assert_frame_equal(opened(packed), opened(tmp_path / "plain.tsv"))
    assert len(opened(packed)) == 50_002


@pytest.mark.parametrize("ending", PACKED)
def test_a_damaged_file_is_refused_without_a_byte_of_it(ending, tmp_path):
    whole = PACKED[ending](b"a,b\n" + "".join(f"{i},4711\n" for i in range(9999)).encode())
    for content in (whole[: len(whole) // 2], whole[:5], b"a,b\n1,4711\n"):
        path = tmp_path / f"damaged.csv{ending}"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"damaged, or not of the kind that") as refusal:
            opened(path, {"a": DeclaredColumn("numbers")})
        assert ending in str(refusal.value)
        assert "4711" not in str(refusal.value)


def test_without_pyarrow_zstd_is_refused_with_the_remedy(tmp_path, monkeypatch):
    (tmp_path / "table.csv.zst").write_bytes(b"anything")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"privatelr\[parquet\].*unzstd FILE"):
        opened(tmp_path / "table.csv.zst")


def test_a_compressed_parquet_file_is_refused(tmp_path):
    (tmp_path / "table.parquet.gz").write_bytes(gzip.compress(b"anything"))
    with pytest.raises(InputError, match="is compressed inside"):
        opened(tmp_path / "table.parquet.gz")


@pytest.mark.parametrize(
    ("start", "words"),
    [
        *((pack(b"a,b\n1,4711\n"), f"let its name end in {end}") for end, pack in PACKED.items()),
        ("a,b\n1,4711\n".encode("utf-16"), "pass --encoding utf-16"),
        ("a,b\n1,4711\n".encode("utf-16-le"), "pass --encoding utf-16-le"),
        ("a,b\n1,4711\n".encode("utf-16-be"), "pass --encoding utf-16-be"),
        ("a,b\n1,4711\n".encode("utf-32"), "pass --encoding utf-32"),
        (b"PAR1\x15\x04\x15\0", "let its name end in .parquet"),
        (b"PK\x03\x04\x14\0\0\0", "spreadsheet; save the table in it as CSV"),
        ("größe,y\n1,4711\n".encode("latin-1"), "--encoding names another, such as latin-1"),
    ],
)
def test_what_a_file_is_instead_of_text_is_said(start, words):
    with pytest.raises(InputError, match="line 1") as refusal:
        read(start, {})
    assert words in str(refusal.value)
    assert "4711" not in str(refusal.value)


# -- encodings and commas --------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding",
    [
        "latin-1",
        "cp1252",
        "utf-8",
        "utf-8-sig",
        "utf-16",
        "utf-16-le",
        "utf-32",
        "gb18030",
        "cp500",
    ],
)
def test_an_encoding_is_named(encoding, tmp_path):
    content = "größe,y\r\n1,0\r\n2.5,1\r\n"
    (tmp_path / "table.csv").write_bytes(content.encode(encoding))
    found = opened(tmp_path / "table.csv", encoding=encoding)
    assert found.to_numpy().tolist() == [[1, 0], [2.5, 1]]


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "utf-8"])
def test_text_in_another_encoding_is_refused_without_a_byte_of_it(encoding):
    with pytest.raises(InputError, match="this is not text in") as refusal:
        CsvTable(io.BytesIO(b"a,b\n4711,\x81\xd8\0"), "the file", ",", encoding=encoding).read({})
    assert "4711" not in str(refusal.value)
    assert "x81" not in str(refusal.value)


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1,5", 1.5), ("-2,5e3", -2500.0), (",5", 0.5), ("3", 3.0), ("inf", math.inf)]
    + [(cell, math.nan) for cell in ("1.5", "1.234,5", "1,2,3", "1 234,5", "", "NA", "1_0")],
)
def test_a_decimal_comma(cell, value):
    table = CsvTable(io.BytesIO(f"a;b\n{cell};1\n".encode()), "the file", ";", decimal=",")
    wanted = {"a": DeclaredColumn("numbers"), "b": DeclaredColumn("numbers", (1, 2))}
    assert same(table.read(wanted)[0]["a"][0], value)


def test_a_decimal_comma_goes_with_semicolons(tmp_path):
    (tmp_path / "table.csv").write_text("größe;y\n1,5;0\n", encoding="utf-8")
    (tmp_path / "table.tsv").write_text("größe\ty\n1,5\t0\n", encoding="utf-8")
    (tmp_path / "quoted.csv").write_text('größe,y\n"1,5",0\n', encoding="utf-8")
    for name, separator in (("table.csv", None), ("table.tsv", None), ("quoted.csv", ",")):
        found = opened(tmp_path / name, separator=separator, decimal=",")
        assert found.to_numpy().tolist() == [[1.5, 0]]


@pytest.mark.parametrize("option", ["decimal", "encoding"])
def test_parquet_takes_no_option_of_text(option, tmp_path):
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=f"--{option} goes with text"):
        opened(tmp_path / "table.parquet", **{option: ","})


# -- what is no table ------------------------------------------------------------------------

PRIVATE = "4711"
MALFORMED = [
    (b"", "is empty"),
    (b"a,b,a\n1,2,3\n", "line 1: two columns are called 'a'"),
    (
        b"4711,4711,x\n1,2,3\n",
        "line 1: the first line takes the column names, and these are numbers",
    ),
    (b",\n1,2\n", "line 1: the first line takes the column names, and there are none"),
    (b"a,b\n1,4711\n1,4711,3\n", "line 3: 3 cells, and the line of names has 2"),
    (b"a,b\n1,4711\n4711\n", "line 3: 1 cells, and the line of names has 2"),
    (b"a,b\n1,4711\n\n2,4711\n", "line 3: the line is blank"),
    (b"a,b\n1,4711\n\n", "line 3: the line is blank"),
    (b"a\n4711\n  \n", "line 3: the line is blank"),
    (b'a,b\n1,"4711\n2,"4711"\n', "line 2: a quote is not closed"),
    (b'a,b\n1,"4711" 4711\n', "line 2: a quote is not closed on its line, or something follows"),
    (b"a,b\n1,4711\n\xff\xfe,4711\n", "line 3: this is not text in UTF-8"),
    ("a,b\n1,2\n".encode("utf-16"), "line 1: this is not text in UTF-8"),
    (b"a,b\n1,\x004711\n", "line 2: this is not a line of a table"),
    (b"a,b\r1,4711\r", "line 1: this is not a line of a table"),
    (b"a" * 2**24, "line 1: the line is longer"),
]


@pytest.mark.parametrize(("content", "words"), MALFORMED, ids=[words for _, words in MALFORMED])
def test_a_file_that_is_no_table_is_refused_by_its_line(content, words):
    with pytest.raises(InputError) as refusal:
        read(content, {})
    assert words in str(refusal.value)
    assert PRIVATE not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ["no.csv", "", "\0"])
def test_a_file_that_cannot_be_opened(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no such file|cannot be opened"), open_table(name, None):
        pass


def test_a_file_that_stops_being_readable():
    class Broken(io.BytesIO):
        def readline(self, size=-1):
            raise OSError(5, "Input/output error")

    with pytest.raises(InputError, match=r"cannot be read \(input/output error\)"):
        CsvTable(Broken(), "the file", ",")


# -- declarations ----------------------------------------------------------------------------


def test_what_a_column_holds_follows_from_its_levels():
    assert by_levels("x", None) == DeclaredColumn("numbers")
    assert by_levels("x", [1, 2.5]) == DeclaredColumn("numbers", (1, 2.5))
    assert by_levels("x", [False, True]) == DeclaredColumn("true or false", (False, True))
    assert by_levels("x", ["1", "2"]) == DeclaredColumn("text", ("1", "2"))
    for levels in (["a", 1], [True, 1], [" a", "b"]):
        with pytest.raises(SchemaError, match=r"levels\['x'\]="):
            by_levels("x", levels)


def test_what_a_column_holds_follows_from_the_model():
    assert by_variable(Variable("x", "numeric")) == DeclaredColumn("numbers")
    assert by_variable(Variable("x", "logical")) == DeclaredColumn("true or false")
    assert by_variable(Variable("x", "text")) == DeclaredColumn("text")
    assert by_variable(Variable("x", "categorical", levels=("a", "b"))) == by_levels("x", "ab")


def test_the_line_about_what_was_read():
    readings = {"y": "numbers", "b": "text", "age": "numbers", "c": "true or false", "\x1b": "text"}
    assert describe(readings, "") == (
        r"read as numbers: y, age; as text: b, '\x1b'; as true or false: c"
    )
    assert "numbers: y, age (note)" in describe(readings, "note")
