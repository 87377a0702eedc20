"""Law 29: one table has one model, by whatever door it is handed over.

The same columns enter ``y ~ .``, or the same refusal does. Columns without a name of their own are
not in the dot: R's row numbers in a text, or row labels that pandas stored in Arrow. DuckDB gives
such a column a name, C0 or column0, and is not asked about it. Labels that have a name are not
columns either where a file or a table of Arrow says that they are labels.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest

from privatelr import FormulaError, SchemaError, cli, dplr

dask = pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")
duckdb = pytest.importorskip("duckdb", reason="needs DuckDB")
pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
pl = pytest.importorskip("polars", reason="needs polars")
ds = pytest.importorskip("pyarrow.dataset", reason="needs the extra [parquet]")
csv = pytest.importorskip("pyarrow.csv", reason="needs the extra [parquet]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs the extra [parquet]")

N = 40
PLAIN = {"u": (0, 1), "y": (0, 1)}
U, Y = np.arange(N) % 7 / 8, np.arange(N) % 2
BOUNDS = {"u": (0, 1), "y": (0, 1), "id": (0, N)}


def told(read, bounds):
    """The columns of a fit, or what refuses it."""
    try:
        data = read()
        return list(dplr("y ~ .", data, eps=0, bounds=bounds).coef.index)[1:]
    except (FormulaError, SchemaError) as error:
        return refusal(str(error))


def by_command(path, bounds, capsys):
    declared = [f"--bounds={name}={low}:{high}" for name, (low, high) in bounds.items()]
    if cli.main(["fit", str(path), "y ~ .", "--eps", "0", "--quiet", "--json", *declared]):
        return refusal(capsys.readouterr().err)
    return json.loads(capsys.readouterr().out)["derived"]["names"][1:]


def refusal(words):
    """What a refusal is about, as the command line has words of its own."""
    return "two columns" if re.search("two columns", words) else words


def doors(table, path, capsys, bounds):
    """What each door says of a table of Arrow, which a file of Parquet has, too."""
    pq.write_table(table, path)
    con = duckdb.connect()
    yield "pyarrow", told(lambda: table, bounds)
    yield "path", told(lambda: str(path), bounds)
    yield "command line", by_command(path, bounds, capsys)
    yield (
        "pandas",
        told(lambda: pd.DataFrame(columns_of(table)).set_axis(table.column_names, axis=1), bounds),
    )
    if len(set(table.column_names)) < table.num_columns:
        return  # other libraries have no such tables
    yield "mapping", told(lambda: dict(zip(table.column_names, table.columns, strict=True)), bounds)
    yield "polars", told(lambda: pl.read_parquet(path), bounds)
    yield "lazy", told(lambda: pl.scan_parquet(path), bounds)
    yield "reader", told(lambda: table.to_reader, bounds)
    yield "Dask", told(lambda: dask.from_pandas(pl.read_parquet(path).to_pandas(), 2), bounds)
    if "" in table.column_names:
        return
    yield "relation", told(lambda: con.sql(f"from '{path}'"), bounds)
    yield "relation as a frame", told(lambda: con.sql(f"from '{path}'").df(), bounds)


def columns_of(table):
    return {place: column.to_numpy() for place, column in enumerate(table.columns)}


TABLES = {
    "named": (["u", "y"], ["u"]),
    "unnamed": (["", "u", "y"], ["u"]),
    "unnamed last": (["u", "y", ""], ["u"]),
    "filled in by pandas": (["Unnamed: 0", "u", "y"], ["u"]),
    "row labels": (["u", "y", "__index_level_0__"], ["u"]),
    "named labels": (["u", "y", "id"], ["u", "id"]),
    "twice": (["u", "u", "y"], "two columns"),
    "unnamed twice": (["", "", "u", "y"], "two columns"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_same_columns_enter_by_every_door(kind, tmp_path, capsys):
    names, right = TABLES[kind]
    cells = {"u": U, "y": Y}
    columns = [pa.array(cells.get(name, np.arange(N))) for name in names]
    table = pa.table(columns, names=names)
    bounds = {name: ends for name, ends in BOUNDS.items() if name in names}
    found = dict(doors(table, tmp_path / "t.parquet", capsys, bounds))
    assert found == dict.fromkeys(found, right)


@pytest.mark.parametrize("name", [None, "id", ("id", "visit")])
def test_row_labels_of_pandas_are_not_columns_of_its_file(name, tmp_path, capsys):
    """Polars and DuckDB do not tell that a column was a label with a name, and show it as one."""
    labels = pd.Index([f"r{i}" for i in range(N)], name=name)
    if isinstance(name, tuple):
        labels = pd.MultiIndex.from_arrays([np.arange(N)] * 2, names=name)
    frame = pd.DataFrame({"u": U, "y": Y}, index=labels)
    path, folder, table = tmp_path / "t.parquet", tmp_path / "some", pa.Table.from_pandas(frame)
    frame.to_parquet(path)
    folder.mkdir()
    frame.to_feather(folder / "1.feather") if name is None else frame.to_parquet(folder / "1.pq")
    bounds = {"u": (0, 1), "y": (0, 1)}
    doors = {
        "pandas": lambda: frame,
        "pandas of the file": lambda: pd.read_parquet(path),
        "pandas of Arrow": lambda: pd.read_parquet(path, dtype_backend="pyarrow"),
        "pyarrow": lambda: pq.read_table(path),
        "pyarrow of pandas": lambda: table,
        "dataset": lambda: ds.dataset(path),
        "reader": lambda: table.to_reader,
        "path": lambda: path,
        "folder": lambda: folder,
        "polars of pandas": lambda: pl.from_pandas(frame),
    }
    if not isinstance(name, tuple):
        doors["Dask"] = lambda: dask.from_pandas(frame, 2, sort=False)
    for door, read in doors.items():
        assert told(read, bounds) == ["u"], door
    assert by_command(path, bounds, capsys) == by_command(folder, bounds, capsys) == ["u"]
    if name == "id":
        asked = [refused(read, bounds | {"id": (0, N)}) for read in doors.values()]
        assert len({*asked}) == 1
        assert "the column 'id', which the data does not have" in asked[0]


def refused(read, bounds):
    with pytest.raises(FormulaError) as error:
        dplr("y ~ u + id", read(), eps=0, bounds=bounds)
    return str(error.value)


@pytest.mark.parametrize("declared", [{}, {"bounds": (1, 3)}, {"levels": [1, 2, 3]}])
def test_numbers_as_categories_are_declared(declared, tmp_path):
    """No type says that they are a factor: in a file, in polars and in DuckDB they are numbers."""
    one = {name: {"u": value} for name, value in declared.items()}
    given = {"eps": 0, "bounds": {"y": (0, 1), **one.get("bounds", {})}}
    given |= {"levels": one.get("levels", {})}
    labels = pa.array(np.arange(N) % 3 + 1).dictionary_encode()
    table = pa.table({"u": labels, "y": Y})
    frame = table.to_pandas()
    frame.to_parquet(tmp_path / "t.parquet")
    typed = {
        "pyarrow": table,
        "reader": table.to_reader,
        "pandas of Arrow": table.to_pandas(types_mapper=pd.ArrowDtype),
        "pandas": frame,
    }
    plain = {
        "Parquet": tmp_path / "t.parquet",
        "polars": pl.from_pandas(frame),
        "DuckDB": duckdb.connect().sql(f"from '{tmp_path / 't.parquet'}'"),
    }
    for name, data in (typed | plain).items():
        if "levels" in declared:
            assert len(dplr("y ~ .", data, **given).coef) == 3, name
        elif name == "pandas" or (name in typed and not declared):
            with pytest.raises(SchemaError, match=r"declare levels=|drop the bounds"):
                dplr("y ~ .", data, **given)
        elif declared:
            assert len(dplr("y ~ .", data, **given).coef) == 2, name
        else:
            with pytest.warns(UserWarning, match="no bounds are declared for 'u'"):
                dplr("y ~ .", data, **given)


def test_row_numbers_of_r_are_in_no_model(tmp_path, capsys):
    path = tmp_path / "r.csv"
    rows = "".join(f'"{i + 1}",{a},{b}\n' for i, (a, b) in enumerate(zip(U, Y, strict=True)))
    path.write_text('"","u","y"\n' + rows, encoding="utf-8")
    reads = (pd.read_csv, pl.read_csv, pl.scan_csv, csv.read_csv, dask.read_csv)
    found = [told(lambda read=read: read(path), PLAIN) for read in reads]
    found.append(told(lambda: pd.read_csv(path).rename(columns={"Unnamed: 0": None}), PLAIN))
    found.append(by_command(path, PLAIN, capsys))
    assert found == [["u"]] * len(found)


def test_a_response_without_a_name_is_refused():
    for name in ("", None):
        with pytest.raises(SchemaError, match="a name in a formula is not empty"):
            dplr(pd.DataFrame({"u": U, name: Y}), eps=0, bounds={"u": (0, 1)})
