"""Experiments of the papers for `fedkme sim reproduce`: computed in pieces, compared with printed numbers."""
