"""Private summaries by cells: what all parties of the protocol share (docs/decisions/007).

Nothing here sends a message. Owners and the consumer count their rows in public cells; the counts get
noise; the curator's part is in curator/cells, the owner's in owner/cells/herding.py.
"""
