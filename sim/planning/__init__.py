"""Choice of a protocol from public facts alone: sizes and budgets, never a row."""

from sim.planning.facts import PublicFacts, facts_of
from sim.planning.plan import Estimate, Plan, make_plan

__all__ = ["Estimate", "Plan", "PublicFacts", "facts_of", "make_plan"]
