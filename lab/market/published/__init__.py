"""Published methods that the benchmark compares with, each as its paper has it."""
