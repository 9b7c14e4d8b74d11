"""Proof by replay: two runs that differ in one protected row, with every declared disclosure frozen.

`pairs` plays a case once and again with a neighbouring row; `recorder` and `tracked` record every draw of
noise with the numbers that it hides; `declared` reads the disclosures that may differ from the ledgers;
`judge` compares the rest (docs/decisions/016).
"""
