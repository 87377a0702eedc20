"""Public tables, bundled or fetched, and schema files with the public facts about a table."""

from privatelr.datasets.bundled import list_datasets, load_dataset, load_schema, load_study
from privatelr.datasets.fetched import fetch_adult, fetch_cod_rna, fetch_kddcup99

__all__ = [
    "fetch_adult",
    "fetch_cod_rna",
    "fetch_kddcup99",
    "list_datasets",
    "load_dataset",
    "load_schema",
    "load_study",
]
