"""Printed pages and plots: summary, card and notes, as text, HTML and Markdown; forest plots."""

from privatelr.results.pages import sentences
from privatelr.results.pages.coefficient_table import shown_rows
