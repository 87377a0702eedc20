"""Tables in files, as text, Parquet or Feather: the requested columns, typed by declarations."""

from privatelr.cli.tables.declared_columns import (
    UNDECLARED,
    DeclaredColumn,
    Reading,
    by_levels,
    by_variable,
    describe,
)
from privatelr.cli.tables.opened_tables import is_file, open_table
