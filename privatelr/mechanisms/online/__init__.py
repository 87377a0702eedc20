"""Online play: each round makes one private choice, from losses that arrive vector by vector."""

from privatelr.mechanisms.online.online_calibration import (
    RELATIONS,
    OnlineCalibration,
    OnlineProblem,
    calibrate_online,
    read_problem,
    read_promise,
)
from privatelr.mechanisms.online.play import PrivateFTRL
from privatelr.mechanisms.online.state_file import opening_state
