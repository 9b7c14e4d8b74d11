"""Parts of a page that explain it: the picture of who saw what."""
