"""Why the pipeline stops.

    PipelineError
    ├── SettingsError         a setting is missing or wrong; nothing was started
    ├── RefusedError          going on would lose or repeat records; nothing was written
    ├── NoAnswerError         the brokers or catalog did not answer; nothing was written
    ├── StorageError          a table or a checkpoint cannot be used; no batch was begun
    ├── BatchError            a batch failed and is not committed
    │   └── DeadLetterError   its rows may be in the table, its dead letters are not all stored
    └── BreakerTripped        too many records of a batch were rejected; it is complete

A bad record is none of these: it is a row with a reason (``reasons.py``), and a dead letter.
"""


class PipelineError(Exception):
    """Base of all errors that this package raises on purpose; ``exit_code`` is the process's."""

    exit_code = 1


class SettingsError(PipelineError):
    """A setting is missing or wrong; the message names it and gives a valid value."""

    exit_code = 2


class RefusedError(PipelineError):
    """A check, at the start or of a batch, found what would lose or repeat records."""

    exit_code = 3


class NoAnswerError(PipelineError):
    """The brokers or catalog did not answer in time; nothing was written."""


class StorageError(PipelineError):
    """A table or a checkpoint cannot be read or written at the start; no batch was begun."""


class BatchError(PipelineError):
    """A batch could not be finished, and Spark has not committed it."""


class DeadLetterError(BatchError):
    """The dead letters of a batch could not all be stored."""


class BreakerTripped(PipelineError):
    """Too many records of one batch were rejected. The batch itself is written and committed."""

    exit_code = 4
