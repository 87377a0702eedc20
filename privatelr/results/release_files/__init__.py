"""The release file of a fit: its content, and how it is written, read and checked."""

from privatelr.results.release_files.calibration_file import restore_moments
from privatelr.results.release_files.design_file import (
    MOST_COLUMNS,
    expansion_work,
    least_columns,
    read_tokens,
)
from privatelr.results.release_files.document import content_hash, release_document
from privatelr.results.release_files.document_entries import VERSION
from privatelr.results.release_files.json_values import MOST_MARKS, canonical, parse, read_entry
from privatelr.results.release_files.release_file import (
    IS_DATABASE,
    charge_of,
    create_file,
    file_bytes,
    hash_in,
    is_database,
    load,
    load_with_hash,
    release_bytes,
    remove_abandoned,
    replace_file,
    reservation_of,
)
from privatelr.results.release_files.restored_fit import restore
