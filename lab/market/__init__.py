"""MarketBench: the product's summaries compared with rivals at equal rows accessed.

layouts.py   owners' rows and D_v: sites, alike owners, discrete tables, rare targets, many small owners
methods.py   all methods, by name
product.py   ours: a whole run of owners, curator and consumer in this process
rivals.py    methods without privacy, methods that release nothing, published methods
run.py       one line of a csv file for each run; finished runs are not repeated
table.py     the table to read first
"""
