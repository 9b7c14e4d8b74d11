"""`python -m curator` is `fedkme curator`."""

import sys

from curator.cli import app
from operate.cli import run_app

if __name__ == "__main__":
    run_app(app, "fedkme curator", sys.argv[1:])
