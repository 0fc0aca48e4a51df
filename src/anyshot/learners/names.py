"""The names of the methods, without importing them."""

LEARNERS = {
    "toe": "train on everything: one model, all data, no adaptation (section 6.2, table 2)",
    "ftml": "follow the meta-leader with a fixed inner step size (section 6.2, table 2)",
    "ftml-vl": "FTML with a learned step size for every number of shots (section 4.2, table 2)",
    "ftml-vs": "FTML with the scaled step size beta (1 - 1/(1 + eta s)), the paper's method (section 5, table 2)",
    "ftml+meta-sgd": "FTML with a learned step size for every parameter (section 6.2, table 2)",
    "ftml-vs+meta-sgd": "FTML-VS with a beta for every parameter (named as future work in section 6.2)",
    "ftml-vs-closed-form": "FTML-VS with eta measured by theorem 1 instead of learned (section 4.2)",
    "a-gem": "averaged gradient episodic memory, a continual learner (section 6.2)",
    "protonet": "incremental prototypical networks; classification only (section 6.2)",
}
