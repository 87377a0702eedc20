"""What a private study will find out, before any data is touched."""

from privatelr.planning.front import plan
from privatelr.planning.record import StudyPlan

__all__ = ["StudyPlan", "plan"]
