"""What all parties of fedkme must agree on: values, feature maps, mechanisms, the wire."""

__version__ = "0.1.0"
