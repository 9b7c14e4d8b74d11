"""Audits of what curators release and pay."""
