"""Experiments of the papers, by `fedkme sim reproduce`: computed in pieces, and held to what is printed."""
