"""Printed pages and plots: summary, card, notes and tables of several fits; forest plots."""

from privatelr.results.pages import sentences
from privatelr.results.pages.coefficient_table import shown_rows
