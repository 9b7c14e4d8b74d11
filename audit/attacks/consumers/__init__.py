"""Audits of a consumer's disclosures of D_v."""
