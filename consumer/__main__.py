"""`python -m consumer` is `fedkme consumer`."""

import sys

from consumer.cli import app
from fedkme.command_line import run_app

if __name__ == "__main__":
    run_app(app, "fedkme consumer", sys.argv[1:])
