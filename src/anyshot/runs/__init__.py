"""An experiment on disk: one writer, an event log, checkpoints to go on from; whatever is damaged is noticed."""
