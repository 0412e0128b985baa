"""What a replay does: it writes the batch again. No record is lost, some may repeat."""

AFTER_A_FAILURE = "start again: the batch is done again"
"""What to do once the cause of a failed batch is mended."""
