"""Run `lab.market.margins.measure`."""

import sys

from lab.market.margins.measure import main

main(sys.argv[1:])
