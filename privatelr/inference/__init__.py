"""Standard errors, intervals and tests: functions of a release, free to repeat."""
