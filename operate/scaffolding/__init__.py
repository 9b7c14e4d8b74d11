"""Files to begin with: a scenario, a party's folder, an owner's kit."""
