"""Agreements between all parties of fedkme: values, feature maps, mechanisms, the wire."""

import os

# gRPC writes lines of its own to standard error, about connections that ended as they should.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

__version__ = "0.2.0"
