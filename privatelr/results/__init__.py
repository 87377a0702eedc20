"""Views of a release: fits, summaries, tables, predictions and release files."""

from privatelr.results.diagnostics import (
    DataCheck,
    DataCounts,
    Diagnostics,
    count_persons,
    diagnose,
)
from privatelr.results.fit import Fit
from privatelr.results.fit_record import FitRecord
from privatelr.results.predict import PredictionType, read_threshold
