"""What may happen to a table between two readings: a record goes, a value or a label moves."""


def fewer(frame):
    return frame.iloc[1:]


def one_value(frame):
    frame.iloc[7, frame.columns.get_loc("age")] += 0.5
    return frame


def one_label(frame):
    frame.iloc[7, frame.columns.get_loc("y")] = 1 - frame["y"].iloc[7]
    return frame
