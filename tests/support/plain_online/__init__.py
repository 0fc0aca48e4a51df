"""Algorithms 1 and 2 of the paper, and every method, in plain Python: lists and loops, no masks, no padding, no jit.

Nothing is shared with the package but configuration (the fields of `OnlineProtocol`, `LearnerSpec` and the
hyperparameters) and random bits: the same keys are split in the same order, but what the bits choose is decided here
again. The buffer is a list of lists of datapoints. A network is an MLP, given as a list [W1, b1, W2, b2, ...].
Derivatives are taken by the chain rule, in NumPy.
"""
