"""The experiments of Sarpatwar 2019, by `fedkme sim reproduce`: curves, and a verdict on each claim."""
