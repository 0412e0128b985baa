"""Stand-in for the package's reasons.py, with the words that are new."""

from enum import StrEnum


class Reason(StrEnum):
    """One word for each way a record can fail; the message beside it has the details."""

    UNDECODABLE = "undecodable"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    MISSING_FIELD = "missing_field"
    UNKNOWN_FIELD = "unknown_field"
    NULL_KEY = "null_key"
    NOT_FRAMED = "not_framed"
    UNKNOWN_SCHEMA = "unknown_schema"

    WRONG_MESSAGE = "wrong_message"
    """A message of the producer's .proto other than the one this topic is read as."""
