"""Plans of private studies: forecasts of their errors before any data is touched."""

from privatelr.planning.expected_choices import plan_choice
from privatelr.planning.expected_declarations import plan_bounds, plan_levels
from privatelr.planning.make_plan import plan
from privatelr.planning.study_plan import StudyPlan

__all__ = ["StudyPlan", "plan", "plan_bounds", "plan_choice", "plan_levels"]
