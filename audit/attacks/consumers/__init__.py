"""Attacks on what a consumer discloses of D_v."""
