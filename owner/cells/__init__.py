"""Owner's part of a summary by cells: a histogram and the rows that fill an order."""
