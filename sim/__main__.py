"""`python -m sim` is `fedkme sim`."""

import sys

from fedkme.command_line import run_app
from sim.cli import app

if __name__ == "__main__":
    run_app(app, "fedkme sim", sys.argv[1:])
