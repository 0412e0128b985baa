"""Places in a bucket among the settings."""

import re
from typing import Annotated

from pydantic import AfterValidator


def in_store(location: str) -> str:
    """The same location.

    Raises:
        ValueError: it is not one in a bucket.
    """
    if not re.fullmatch(r"s3a://[a-z0-9][a-z0-9.-]+(/.*)?", location):
        raise ValueError(f"{location!r} is no place in a bucket, such as s3a://my-bucket/pipeline")
    return location


Location = Annotated[str, AfterValidator(in_store)]


def under(prefix: str, name: str) -> str:
    """A name below a prefix."""
    return f"{prefix.rstrip('/')}/{name}"
