"""Hypothesis searches anew on every run; the gate repeats one search, so that it can be trusted."""

import os

from hypothesis import settings

settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "search")
