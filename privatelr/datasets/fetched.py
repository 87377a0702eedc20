"""Published tables of the literature on private classification, as data frames."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privatelr.arguments import suggests_arguments
from privatelr.datasets.bundled import load_schema
from privatelr.datasets.published import PublishedFile, read_published
from privatelr.errors import ArgumentError, require_choice

if TYPE_CHECKING:
    from collections.abc import Collection

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
ADULT_TRAIN = PublishedFile(
    "adult/adult.data",
    f"{_UCI}/adult/adult.data",
    "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    3_974_305,
)
ADULT_TEST = PublishedFile(
    "adult/adult.test",
    f"{_UCI}/adult/adult.test",
    "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    2_003_153,
)
KDDCUP99 = PublishedFile(
    "kddcup99/kddcup.data_10_percent",
    f"{_UCI}/kddcup99-mld/kddcup.data_10_percent.gz",
    "f8c8267ebcd9c0ed1fd7d6277fe5bfff8732e9b7db8e61b873542b2a534b6f9a",
    74_889_749,
)
COD_RNA_TRAIN = PublishedFile(
    "cod-rna/cod-rna",
    f"{_LIBSVM}/cod-rna",
    "65b7cc0689fc29bba5db8b50fab0b6446d985f4bf8f6f5dd474f7df8b2f1ab6c",
    4_667_176,
)
COD_RNA_TEST = PublishedFile(
    "cod-rna/cod-rna.t",
    f"{_LIBSVM}/cod-rna.t",
    "58cff16df896436b06343df78ccaef37a6979d819abbcadbec3cb16b93938df6",
    21_344_555,
)
_PARTS = ("all", "train", "test")
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
FETCHED = ("adult", "cod_rna", "kddcup99")
"""Names under which `load_schema` knows the tables of this module."""


@suggests_arguments
def fetch_adult(part: str = "all", *, incomplete: str = "drop") -> pd.DataFrame:
    """Adult: who earns more than 50,000 dollars, from the census of 1994.

    Parameters
    ----------
    part : {"all", "train", "test"}
        The file of 32,561 records, the one of 16,281, or both in this order.
    incomplete : {"drop", "keep"}
        What becomes of records with a missing value; 30,162 and 15,060 have none. Without
        them all columns but the numbers are categorical, with the levels of
        ``load_schema("adult")``.

    Returns
    -------
    DataFrame
        14 covariates and ``income``.

    Raises
    ------
    DatasetError
        If the file is nowhere; the sentence says where to put it.

    Notes
    -----
    **Privacy.** *Covered*: nothing; the table is public. *Neighbours*: none. *Assumed public*,
    *Not covered*: everything.
    """
    require_choice(ArgumentError, "part", part, _PARTS)
    require_choice(ArgumentError, "incomplete", incomplete, ("drop", "keep"))
    files = {"train": (ADULT_TRAIN,), "test": (ADULT_TEST,), "all": (ADULT_TRAIN, ADULT_TEST)}
    frames = []
    for file in files[part]:
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
    whole = pd.concat(frames, ignore_index=True)
    if incomplete == "keep":
        return whole
    return _with_levels(whole.dropna(ignore_index=True), "adult")


def fetch_kddcup99() -> pd.DataFrame:
    """KDD Cup 1999: which connections of a network are attacks; the file of ten percent.

    Returns
    -------
    DataFrame
        494,021 records of 41 covariates and ``connection``, which is "normal" or names an attack.

    Raises
    ------
    DatasetError
        If the file is nowhere; the sentence says where to put it.

    Notes
    -----
    **Privacy.** *Covered*: nothing; the table is public. *Neighbours*: none. *Assumed public*,
    *Not covered*: everything.
    """
    content = io.BytesIO(read_published(KDDCUP99))
    frame = pd.read_csv(content, header=None, names=_KDD_COLUMNS)
    return _with_levels(frame.assign(connection=frame["connection"].str.rstrip(".")), "kddcup99")


@suggests_arguments
def fetch_cod_rna(part: str = "train") -> pd.DataFrame:
    """Cod-RNA: which pairs of sequences hold an RNA that codes for no protein.

    Parameters
    ----------
    part : {"train", "test", "all"}
        The file of 59,535 records, the one of 271,617, or both in this order.

    Returns
    -------
    DataFrame
        ``energy`` (ten times the free energy of the common structure), ``length`` of the
        shorter sequence, shares of A, U and C in both sequences, and ``label``, -1 or 1.

    Raises
    ------
    DatasetError
        If the file is nowhere; the sentence says where to put it.

    Notes
    -----
    **Privacy.** *Covered*: nothing; the table is public. *Neighbours*: none. *Assumed public*,
    *Not covered*: everything.
    """
    require_choice(ArgumentError, "part", part, _PARTS)
    files = {
        "train": (COD_RNA_TRAIN,),
        "test": (COD_RNA_TEST,),
        "all": (COD_RNA_TRAIN, COD_RNA_TEST),
    }
    frames = [_read_entries(read_published(file), _COD_RNA_COLUMNS) for file in files[part]]
    return pd.concat(frames, ignore_index=True)


def _read_entries(content: bytes, columns: Collection[str]) -> pd.DataFrame:
    """Lines such as "-1 1:-766 2:128" in which no entry is left out."""
    width = 2 * len(columns) + 1
    words = content.replace(b":", b" ").split()
    table = np.array(words, dtype=np.float64).reshape(-1, width)
    frame = pd.DataFrame(table[:, 2::2], columns=list(columns))
    return frame.assign(label=table[:, 0].astype(int))


def _with_levels(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    levels: dict[str, list[Any]] = load_schema(name)["levels"]
    return frame.astype({key: pd.CategoricalDtype(found) for key, found in levels.items()})
