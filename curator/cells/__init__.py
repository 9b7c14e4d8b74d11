"""The curator's part of a summary by cells: everything here is post-processing of private releases."""
