"""MarketBench: summaries as the product makes them beside what else could be done, at equal rows accessed.

layouts.py   who holds what: sites, alike owners, discrete tables, rare targets, many small owners
methods.py   everything that is compared, by name
product.py   ours: a whole run of owners, curator and consumer in this process
rivals.py    what needs no privacy, releases nothing, or is published elsewhere
target.py    rows for a target from a release, beside real rows
rare.py      the same for rare targets, with more rows drawn and with a weighted half of the budget
run.py       one row of a table for each run; what is there already is not run again
table.py     the table that people read first
"""
