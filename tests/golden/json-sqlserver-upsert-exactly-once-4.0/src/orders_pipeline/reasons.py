"""Why a record was rejected: the one list that the decoder and the dead letters share."""

from enum import StrEnum


class Reason(StrEnum):
    """One word for each way a record can fail; the message beside it has the details.

    The words are stored in dead letters, and a replay selects by them: add to them, never rename
    one.
    """

    UNDECODABLE = "undecodable"
    """Not the format: empty, cut off, not UTF-8. Look at the producer."""

    FRAMED = "framed"
    """It bears a schema registry's header, and this pipeline was made for bare values."""

    WRONG_TYPE = "wrong_type"
    """A field is there, but of another type than the schema's: a producer and the schema differ."""

    OUT_OF_RANGE = "out_of_range"
    """The right type, but not a value that its column can hold, such as a year after 9999."""

    MISSING_FIELD = "missing_field"
    """Absent or null where it is required: mend the producer, or a schema that asks too much."""

    UNKNOWN_FIELD = "unknown_field"
    """A field that the schema does not have, while the settings reject those: add it, or ignore."""

    REFUSED = "refused"
    """Decoded, but the table does not take it: a constraint, a text too long, no finite number."""

    NULL_KEY = "null_key"
    """The record has no key where one must say which row is meant."""
