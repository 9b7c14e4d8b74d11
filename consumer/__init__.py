"""The consumer: brings a validation set, receives a summary, judges it."""
