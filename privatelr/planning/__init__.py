"""Plans of private studies: forecasts of their errors before any data is touched."""

from privatelr.planning.make_plan import plan
from privatelr.planning.study_plan import StudyPlan

__all__ = ["StudyPlan", "plan"]
