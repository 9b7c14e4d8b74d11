"""Choice of a protocol from public facts alone: sizes and budgets, never a row."""

from sim.planning.facts import PublicFacts, facts_of
from sim.planning.plan import Forecast, Recommendation, make_plan

__all__ = ["Forecast", "PublicFacts", "Recommendation", "facts_of", "make_plan"]
