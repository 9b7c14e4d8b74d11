"""Parts that all pages share: the style and the glossary."""
