"""Published tables: looked for at home, in the cache, at their address; never other bytes."""

import gzip
import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pandas as pd
import pytest
from studies.tables import HOME, data_home

from privatelr import datasets, load_schema
from privatelr.datasets import fetched
from privatelr.datasets.fetched import PublishedFile, read_published
from privatelr.errors import DatasetError

ADULT = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, \
2174, 0, 40, United-States, <=50K
52, ?, 209642, HS-grad, 9, Divorced, ?, Husband, Black, Female, 0, 0, 45, ?, >50K
"""
ADULT_TEST = "|1x3 Cross validator\n" + ADULT.replace("50K", "50K.") + "\n"
KDD = ",".join(["0", "tcp", "http", "SF", *["1"] * 37]) + ",{}.\n"
COD_RNA = "-1 1:-766 2:128 3:0.25 4:0.25 5:0.25 6:0.25 7:0.25 8:0.25\n+1 1:-1.5e2 2:99 "
COD_RNA += "3:0 4:0.5 5:0.1 6:0.2 7:0.3 8:0.4\n"

DATA = data_home()
needs_data = pytest.mark.skipif(DATA is None, reason=f"{HOME} names no folder of tables")


class Site:
    """A server on this machine, and what it was asked for."""

    def __init__(self):
        self.pages, self.asked = {}, []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked.append(self.path)
                content = site.pages.get(self.path)
                self.send_response(404 if content is None else 200)
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def publish(self, name, content, compressed=False):
        address = f"/{name}.gz" if compressed else f"/{name}"
        self.pages[address] = gzip.compress(content) if compressed else content
        host, port = self.server.server_address
        sha256 = hashlib.sha256(content).hexdigest()
        return PublishedFile(name, f"http://{host}:{port}{address}", sha256)

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def site():
    found = Site()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """A home and a cache of their own, both empty."""
    home, cache = tmp_path / "home", tmp_path / "cache" / "privatelr"
    monkeypatch.setenv(HOME, str(home))
    cache.parent.mkdir()
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(variable, str(cache.parent))
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return home, cache


def put(path, content, compressed=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if compressed else content)


# -- where a file is looked for ------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [True, False])
def test_a_download_is_kept_in_the_cache(site, folders, compressed, monkeypatch):
    file = site.publish("a/table", b"1 2\n" * 1000, compressed)
    for _ in range(2):
        assert read_published(file) == b"1 2\n" * 1000
        monkeypatch.delenv(HOME, raising=False)
    assert len(site.asked) == 1
    assert [path.name for path in (folders[1] / "a").iterdir()] == ["table.gz"]
    assert not folders[0].exists()  # the home of tables is read, never written


# -- what is refused -----------------------------------------------------------------------------


def check_refused(file, *words):
    with pytest.raises(DatasetError) as refusal:
        read_published(file)
    message = str(refusal.value)
    for word in words:
        assert word in message
    assert "\n" not in message
    assert isinstance(refusal.value, OSError)


def test_other_bytes_are_refused_wherever_they_are(site, folders):
    file = site.publish("a/table", b"1 2\n")
    changed = replace(file, sha256="0" * 64)
    check_refused(changed, file.address, "0" * 64)
    assert not folders[1].exists()  # and not kept
    put(folders[1] / "a/table.gz", b"1 3\n", compressed=True)
    check_refused(file, str(folders[1]), file.sha256)
    put(folders[0] / "a/table", b"1 3\n")
    check_refused(file, str(folders[0]), "remove it")


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"1 2\n", mtime=0)[:-9]])
def test_a_broken_archive_is_one_sentence(site, folders, content):
    file = site.publish("a/table", b"1 2\n")
    put(folders[0] / "a/table.gz", content)
    check_refused(file, "cannot be read", "table.gz")


def test_no_connection_says_what_to_do(site):
    missing = replace(site.publish("a/table", b"1\n"), address="http://127.0.0.1:9/none")
    check_refused(missing, "a/table", "http://127.0.0.1:9/none", HOME)
    host, port = site.server.server_address
    check_refused(replace(missing, address=f"http://{host}:{port}/none"), "Not Found", HOME)


# -- the tables ----------------------------------------------------------------------------------


@pytest.fixture
def small(site, monkeypatch):
    """All tables, of a few records."""
    for name, content in (
        ("ADULT_TRAIN", ADULT),
        ("ADULT_TEST", ADULT_TEST),
        ("KDDCUP99", KDD.format("normal") + KDD.format("smurf")),
        ("COD_RNA", COD_RNA),
    ):
        file = getattr(fetched, name)
        monkeypatch.setattr(fetched, name, site.publish(file.name, content.encode()))


@pytest.mark.usefixtures("small")
def test_adult():
    frame = datasets.fetch_adult()
    assert frame.shape == (2, 15)  # one record of each file is complete
    assert frame.age.tolist() == [39, 39]
    assert frame.income.tolist() == ["<=50K", "<=50K"]
    for column, levels in load_schema("adult")["levels"].items():
        assert list(frame[column].cat.categories) == levels
        assert frame[column].notna().all()


@needs_data
def test_the_published_tables_are_as_published(monkeypatch):
    monkeypatch.setenv(HOME, str(DATA))
    adult, schema = datasets.fetch_adult(), load_schema("adult")
    assert len(adult) == 45222
    assert (adult.income == ">50K").sum() == 11208
    assert {*schema["bounds"], *schema["levels"]} == set(adult.columns)
    for column, (low, high) in schema["bounds"].items():
        assert adult[column].between(low, high).all()
    assert len(pd.get_dummies(adult.drop(columns="income")).columns) + 1 == 105
    rna, bounds = datasets.fetch_cod_rna(), load_schema("cod_rna")["bounds"]
    assert rna.label.value_counts().to_dict() == {-1: 39690, 1: 19845}
    for column, (low, high) in bounds.items():
        mean, spread = rna[column].mean(), 2.5 * rna[column].std()
        assert low == pytest.approx(mean - spread, abs=0.05 * spread)
        assert high == pytest.approx(mean + spread, abs=0.05 * spread)
