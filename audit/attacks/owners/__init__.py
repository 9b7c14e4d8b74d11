"""The audit of what owners do beside what they answer: whether they stay, and how long they take."""
