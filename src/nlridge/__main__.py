"""``python -m nlridge`` is the command ``nlridge``."""

import sys

from .apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
