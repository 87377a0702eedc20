"""``python -m privatelr``: the command ``privatelr``, where its script is not on the path."""

import sys

from privatelr.cli import main

if __name__ == "__main__":
    sys.exit(main())
