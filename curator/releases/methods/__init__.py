"""Methods of release, one module each; the table of protocols (fedkme/protocols.py) names them."""
