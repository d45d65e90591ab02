"""`python -m hakaru.cli`: the command `hakaru`, in a checkout that is not installed."""

import sys

from hakaru.cli import main

sys.exit(main())
