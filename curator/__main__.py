"""`python -m curator` is `fedkme curator`."""

import sys

from curator.cli import app
from fedkme.command_line import run_app

if __name__ == "__main__":
    run_app(app, "fedkme curator", sys.argv[1:])
