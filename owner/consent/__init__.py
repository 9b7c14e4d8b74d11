"""Owner's consent: its policy, approvals, history, and the gate that enforces them."""
