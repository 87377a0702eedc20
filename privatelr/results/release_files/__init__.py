"""The release file: its content, and how it is written, read and checked."""

from privatelr.results.release_files.design_file import MOST_COLUMNS
from privatelr.results.release_files.json_values import canonical, parse, read_entry
from privatelr.results.release_files.release_file import (
    IS_DATABASE,
    content_hash,
    create_file,
    file_bytes,
    hash_in,
    is_database,
    load,
    load_with_hash,
    release_document,
    replace_file,
    restore,
)
