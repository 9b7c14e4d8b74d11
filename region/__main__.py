"""`python -m region` is `fedkme region`."""

import sys

from fedkme.cli import run_app
from region.cli import app

if __name__ == "__main__":
    run_app(app, "fedkme region", sys.argv[1:])
