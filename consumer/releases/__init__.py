"""Consumer's part of a release: the request, the received files, estimators."""
