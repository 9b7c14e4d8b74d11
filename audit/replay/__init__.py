"""Proof by replay: two runs that differ in one protected row, with every declared disclosure frozen.

`world` plays a case once and again with a neighbouring row; `recorder` and `tracked` know every draw of noise
and what it hid; `declared` reads in the ledgers what may differ; `judge` compares the rest
(docs/decisions/016).
"""
