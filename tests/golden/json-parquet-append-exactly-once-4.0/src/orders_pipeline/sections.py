"""What the sections of the settings have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the settings file; a name that it does not know is an error, not a surprise."""

    model_config = ConfigDict(extra="forbid", frozen=True)
