"""Consumer's part of a summary: the request, the offer, the evaluation."""
