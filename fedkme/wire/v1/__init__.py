"""Generated from protos/fedkme/v1 by `make protos`."""
