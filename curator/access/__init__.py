"""Checks of certificates, names and quotas, and the masking of unexpected errors."""
