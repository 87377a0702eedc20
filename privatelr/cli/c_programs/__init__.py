"""The commands ``lrsimple`` and ``svmsimple``, and the files that they read."""
