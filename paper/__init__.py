"""The paper's tables and figures: what to run for each, what came out, and how the two compare.

Not part of the installed library. `python -m paper --help` says what it does.
"""
