"""MarketBench: summaries as the product makes them beside what else could be done, at equal rows accessed.

layouts.py   who holds what: sites, alike owners, discrete tables, rare targets, many small owners
methods.py   everything that is compared, by name
product.py   ours: a whole run of owners, curator and consumer in this process
rivals.py    what needs no privacy, releases nothing, or is published elsewhere
run.py       one row of a table for each run; what is there already is not run again
table.py     the table that people read first
"""
