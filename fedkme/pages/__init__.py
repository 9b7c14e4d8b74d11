"""Parts that all pages share: the style, and words explained in place."""
