"""Words in which runs of each family of protocols are told of, on the page and on a terminal alike."""
