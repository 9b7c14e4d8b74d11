"""`fedkme doctor`: finds what would keep a party from working before it starts; one line per finding.

The doctor changes nothing, opens no store for writing, and tells a peer no more than a call of the health
service does.
"""
