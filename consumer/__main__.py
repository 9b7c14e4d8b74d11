"""`python -m consumer` is `fedkme consumer`."""

import sys

from consumer.cli import app
from operate.cli import run_app

if __name__ == "__main__":
    run_app(app, "fedkme consumer", sys.argv[1:])
