"""Comparison of runs: the conditions that differ, and the difference of every metric at every point
that both runs have.

    difference   statistics of one difference, and the correction for many of them; pure
    conditions   the parts of two runs that differ besides the results; pure
    rows         metrics of two runs at their common points, each with a verdict; pure
    runs         reads the runs and puts the three together

docs/reference/compare.md describes the method. `hakaru compare` is the command.
"""
