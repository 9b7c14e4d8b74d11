"""Payments to owners, and what a payment tells: pure functions, each with its privacy statement."""

from curator.payouts.gains import (
    GainRelease,
    WinRelease,
    by_exact_gains,
    by_noised_gains,
    by_noised_wins,
    gain_sensitivity,
)
from curator.payouts.mixture import by_mixture, mixture_weights
from curator.payouts.payout import Payout, divide
from curator.payouts.rows import by_price, by_rows, by_rows_noised
from curator.payouts.shapley import MixtureGame, Shapley, by_shapley, exact_shapley, sampled_shapley, shapley

__all__ = [
    "GainRelease",
    "MixtureGame",
    "Payout",
    "Shapley",
    "WinRelease",
    "by_exact_gains",
    "by_mixture",
    "by_noised_gains",
    "by_noised_wins",
    "by_price",
    "by_rows",
    "by_rows_noised",
    "by_shapley",
    "divide",
    "exact_shapley",
    "gain_sensitivity",
    "mixture_weights",
    "sampled_shapley",
    "shapley",
]
