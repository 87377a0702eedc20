"""Online play: one private choice a round, from losses that arrive one vector at a time."""

from privatelr.mechanisms.online.online_calibration import (
    OnlineCalibration,
    OnlineProblem,
    calibrate_online,
    read_problem,
    read_promise,
)
from privatelr.mechanisms.online.play import PrivateFTRL
from privatelr.mechanisms.online.state_file import opening_state
