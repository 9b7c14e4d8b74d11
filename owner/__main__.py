"""`python -m owner` is `fedkme owner`."""

import sys

from fedkme.command_line import run_app
from owner.cli import app

if __name__ == "__main__":
    run_app(app, "fedkme owner", sys.argv[1:])
