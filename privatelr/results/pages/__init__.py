"""Printed pages: summary, card and notes, as text, HTML and Markdown."""

from privatelr.results.pages import sentences
from privatelr.results.pages.not_private_notes import DataCheck
from privatelr.results.pages.summary_table import shown_rows
