"""Summaries: Algorithm 3 of Sarpatwar 2019 and its auctions."""
