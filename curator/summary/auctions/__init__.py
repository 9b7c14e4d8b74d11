"""Auctions: who is asked for a row. A file for each; the table of protocols has their rows."""
