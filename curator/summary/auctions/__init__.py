"""Auctions, which decide the owners to ask for a row; one module each, named by fedkme/protocols.py."""
