"""The wire: generated stubs, channel options, TLS, codecs."""
