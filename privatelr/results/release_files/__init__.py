"""The release file: its content, and how it is written, read and checked."""

from privatelr.results.release_files.design_file import (
    MOST_COLUMNS,
    expansion_work,
    least_columns,
    read_tokens,
)
from privatelr.results.release_files.json_values import MOST_MARKS, canonical, parse, read_entry
from privatelr.results.release_files.release_file import (
    IS_DATABASE,
    charge_of,
    content_hash,
    create_file,
    file_bytes,
    hash_in,
    is_database,
    load,
    load_with_hash,
    release_document,
    remove_abandoned,
    replace_file,
    restore,
)
