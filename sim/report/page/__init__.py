"""Parts of a page that explain it: the glossary, the picture of who saw what, the style."""
