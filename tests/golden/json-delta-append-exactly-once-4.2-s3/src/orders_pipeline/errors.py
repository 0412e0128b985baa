"""Why the pipeline stops.

    PipelineError
    ├── SettingsError         a setting, or transform.py, is wrong; nothing was started
    ├── RefusedError          going on would lose or repeat records; nothing was written
    ├── NoAnswerError         the brokers did not answer; nothing was written
    ├── StorageError          a table or a checkpoint cannot be used; no batch was begun
    ├── BatchError            a batch failed and is not committed; or a backfill or replay did
    │   └── DeadLetterError   its rows may be in the table, its dead letters are not all stored
    └── BreakerTripped        too many records of a batch were rejected; it is complete

A bad record is none of these: it is a row with a reason (``reasons.py``), and a dead letter.
"""

from typing import Any


class PipelineError(Exception):
    """Base of all errors that this package raises on purpose; ``exit_code`` is the process's."""

    exit_code = 1


class SettingsError(PipelineError):
    """A setting or an argument is missing or wrong; the message names it and gives a valid value.

    Or ``transform.py`` fails, whatever it is given.
    """

    exit_code = 2


class RefusedError(PipelineError):
    """A check, at the start or of a batch, found what would lose or repeat records."""

    exit_code = 3


class NoAnswerError(PipelineError):
    """The brokers did not answer in time; nothing was written."""


class StorageError(PipelineError):
    """A table or a checkpoint cannot be read or written at the start; no batch was begun."""


class BatchError(PipelineError):
    """A batch could not be finished, and Spark has not committed it; or a backfill or replay."""


class DeadLetterError(BatchError):
    """The dead letters of a batch could not all be stored."""


class BreakerTripped(PipelineError):
    """Too many records of one batch were rejected. The batch itself is written and committed."""

    exit_code = 4


def first_line(error: BaseException) -> str:
    """The first line of the root cause in Java, of an error of Spark's; of any other, its own.

    Where that is a traceback, which is how Java has what failed in Python, its last line.
    """
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    said = f"{type(error).__name__}: {error}" if java is None else str(java.toString())
    lines = said.strip().splitlines()
    return lines[-1 if "Traceback" in lines[0] else 0].rstrip(".:; ")
