"""Published tables of the literature on private classification: fetched, checked, cached.

A file is first searched in the folder that ``PRIVATELR_DATA_HOME`` names, and then in the user's
cache. If neither has it, it is downloaded into the cache. In both it has the name of its table,
compressed or not: ``adult/adult.data.gz`` or ``adult/adult.data``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import secrets
import sys
import urllib.error
import zlib
from contextlib import suppress
from dataclasses import dataclass
from http import client
from pathlib import Path
from urllib import request

import numpy as np
import pandas as pd

from privatelr.datasets.bundled import with_levels
from privatelr.errors import DatasetError

HOME = "PRIVATELR_DATA_HOME"
_PATIENCE = 60.0
"""A download fails after this number of seconds without an answer."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file of a table.

    Attributes
    ----------
    name : str
        The path of the uncompressed file in a folder of tables.
    address : str
        The URL where it was published; a file that ends in ``.gz`` is compressed.
    sha256 : str
        Hash of the uncompressed bytes.
    """

    name: str
    address: str
    sha256: str


def read_published(file: PublishedFile) -> bytes:
    """The uncompressed bytes of a file, which are checked to be the published ones.

    Raises
    ------
    DatasetError
        If the file is not found and cannot be downloaded, or if its bytes differ.
    """
    home, cache = os.environ.get(HOME), _cache()
    for folder in (Path(home), cache) if home else (cache,):
        for path in (folder / f"{file.name}.gz", folder / file.name):
            if not path.is_file():
                continue
            try:
                content = path.read_bytes()
                content = gzip.decompress(content) if path.suffix == ".gz" else content
            except (OSError, EOFError, zlib.error) as error:
                reason = (getattr(error, "strerror", None) or str(error)).lower()
                raise DatasetError(f"{str(path)!r}: the file cannot be read ({reason}).") from None
            return _checked(file, content, f"{str(path)!r}")
    content = _checked(file, _download(file), file.address)
    kept = cache / f"{file.name}.gz"
    temporary = kept.with_name(f".{secrets.token_hex(8)}.tmp")
    with suppress(OSError):  # a call does not fail because the cache cannot be written
        kept.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(gzip.compress(content, mtime=0))
            temporary.replace(kept)  # this is one step, so every file in the cache is complete
        finally:
            temporary.unlink(missing_ok=True)
    return content


def _cache() -> Path:
    """The folder of this package in the user's cache."""
    places = {"win32": ("LOCALAPPDATA", "AppData/Local"), "darwin": ("", "Library/Caches")}
    variable, folder = places.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    usual = os.environ.get(variable)
    return (Path(usual) if usual else Path.home() / folder) / "privatelr"


def _checked(file: PublishedFile, content: bytes, source: str) -> bytes:
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DatasetError(
            f"{source}: the file is not {file.name} as it was published, whose SHA-256 is "
            f"{file.sha256}; remove it, or get it anew."
        )
    return content


def _download(file: PublishedFile) -> bytes:
    try:
        with request.urlopen(file.address, timeout=_PATIENCE) as answer:
            content: bytes = answer.read()
        return gzip.decompress(content) if file.address.endswith(".gz") else content
    except (OSError, EOFError, client.HTTPException, zlib.error) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise DatasetError(
            f"{file.name} could not be downloaded from {file.address} ({reason}); get it by other "
            f"means, put it into a folder as {file.name} or {file.name}.gz, and name the folder "
            f"in the environment variable {HOME}."
        ) from None


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
ADULT_TRAIN = PublishedFile(
    "adult/adult.data",
    f"{_UCI}/adult/adult.data",
    "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
)
ADULT_TEST = PublishedFile(
    "adult/adult.test",
    f"{_UCI}/adult/adult.test",
    "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
)
KDDCUP99 = PublishedFile(
    "kddcup99/kddcup.data_10_percent",
    f"{_UCI}/kddcup99-mld/kddcup.data_10_percent.gz",
    "f8c8267ebcd9c0ed1fd7d6277fe5bfff8732e9b7db8e61b873542b2a534b6f9a",
)
COD_RNA = PublishedFile(
    "cod-rna/cod-rna",
    f"{_LIBSVM}/cod-rna",
    "65b7cc0689fc29bba5db8b50fab0b6446d985f4bf8f6f5dd474f7df8b2f1ab6c",
)
_ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation"),
    *("relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week"),
    *("native_country", "income"),
)
_KDD_COLUMNS = (
    *("duration", "protocol_type", "service", "flag", "src_bytes", "dst_bytes", "land"),
    *("wrong_fragment", "urgent", "hot", "num_failed_logins", "logged_in", "num_compromised"),
    *("root_shell", "su_attempted", "num_root", "num_file_creations", "num_shells"),
    *("num_access_files", "num_outbound_cmds", "is_host_login", "is_guest_login", "count"),
    *("srv_count", "serror_rate", "srv_serror_rate", "rerror_rate", "srv_rerror_rate"),
    *("same_srv_rate", "diff_srv_rate", "srv_diff_host_rate", "dst_host_count"),
    *("dst_host_srv_count", "dst_host_same_srv_rate", "dst_host_diff_srv_rate"),
    *("dst_host_same_src_port_rate", "dst_host_srv_diff_host_rate", "dst_host_serror_rate"),
    *("dst_host_srv_serror_rate", "dst_host_rerror_rate", "dst_host_srv_rerror_rate"),
    "connection",
)
_COD_RNA_COLUMNS = ("energy", "length", "A1", "U1", "C1", "A2", "U2", "C2")


def fetch_adult() -> pd.DataFrame:
    """The table Adult of the census of 1994: who earns more than 50,000 dollars.

    Records with a missing value are left out: 2,399 of the 32,561 in the file for training, which
    comes first, and 1,221 of the 16,281 in the file for tests. So the first 30,162 of the 45,222
    rows are those for training.

    Returns
    -------
    DataFrame
        14 covariates and ``income``. All columns except numbers are categorical, with the levels
        of ``load_schema("adult")``.

    Raises
    ------
    DatasetError
        If the file is not found and cannot be downloaded; the message says where to put it.

    Notes
    -----
    **Privacy.** *Covered*: nothing; the table is public. *Neighbours*: none. *Assumed public*,
    *Not covered*: everything.
    """
    frames = []
    for file in (ADULT_TRAIN, ADULT_TEST):
        frame = pd.read_csv(
            io.BytesIO(read_published(file)),
            header=None,
            names=_ADULT_COLUMNS,
            skipinitialspace=True,
            na_values="?",
            keep_default_na=False,
            comment="|",  # the first line of the second file
        )
        frames.append(frame.assign(income=frame["income"].str.rstrip(".")))
    return with_levels(pd.concat(frames).dropna(ignore_index=True), "adult")


def fetch_kddcup99() -> pd.DataFrame:
    """The ten percent file of KDD Cup 1999: which connections of a network are attacks.

    Returns
    -------
    DataFrame
        494,021 records of 41 covariates and ``connection``, which is "normal" or names an attack.

    Raises
    ------
    DatasetError
        If the file is not found and cannot be downloaded; the message says where to put it.

    Notes
    -----
    **Privacy.** *Covered*: nothing; the table is public. *Neighbours*: none. *Assumed public*,
    *Not covered*: everything.

    Examples
    --------
    >>> from privatelr.datasets import fetch_kddcup99
    >>> connections = fetch_kddcup99()  # a download at first, of 2 MB
    >>> (connections["connection"] == "normal").sum()
    np.int64(97278)
    """
    content = io.BytesIO(read_published(KDDCUP99))
    frame = pd.read_csv(content, header=None, names=_KDD_COLUMNS)
    return with_levels(frame.assign(connection=frame["connection"].str.rstrip(".")), "kddcup99")


def fetch_cod_rna() -> pd.DataFrame:
    """The table cod-RNA: which pairs of sequences contain an RNA that does not code for a protein.

    Returns
    -------
    DataFrame
        59,535 records, those for training: ``energy`` (ten times the free energy of the common
        structure), ``length`` of the shorter sequence, shares of A, U and C in both sequences, and
        ``label``, -1 or 1.

    Raises
    ------
    DatasetError
        If the file is not found and cannot be downloaded; the message says where to put it.

    Notes
    -----
    **Privacy.** *Covered*: nothing; the table is public. *Neighbours*: none. *Assumed public*,
    *Not covered*: everything.
    """
    # a line is such as "-1 1:-766 2:128", and no entry is left out
    words = read_published(COD_RNA).replace(b":", b" ").split()
    table = np.array(words, dtype=np.float64).reshape(-1, 2 * len(_COD_RNA_COLUMNS) + 1)
    frame = pd.DataFrame(table[:, 2::2], columns=list(_COD_RNA_COLUMNS))
    return frame.assign(label=table[:, 0].astype(int))
