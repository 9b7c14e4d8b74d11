"""Private summaries by cells: the parts that all parties share (docs/decisions/007).

Owners and the consumer count their rows in public cells and add noise to the counts. Nothing here sends a
message. The curator's part is in curator/cells, the owner's in owner/cells/fill.py.
"""
