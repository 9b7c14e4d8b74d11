"""Summaries by Algorithm 3 of Sarpatwar 2019 with its auctions, and by uniform draws."""
