"""Settings of the database."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .sections import Section


class DatabaseSettings(Section):
    """The PostgreSQL database; PIPELINE_DATABASE_PASSWORD of the environment holds the password."""

    host: str = "localhost"
    port: Annotated[int, Field(gt=0, le=65535)] = 5432
    name: str = "postgres"
    user: str = "postgres"
    ssl_mode: Literal["verify-full", "verify-ca", "require", "disable"] = "verify-full"
    """verify-full: encrypted, and the server is who it says; the others check less, or nothing."""
    ca_file: Path | None = None
    """The authority that signed the server's certificate, in PEM; when not set, those that each
    machine trusts, or that its SSL_CERT_FILE holds."""
    max_connections: Annotated[int, Field(gt=0)] = 8
    """Connections that a batch's tasks open at once, at most; the driver has one beside them."""
    connect_timeout_s: Annotated[int, Field(gt=1)] = 10

    @model_validator(mode="after")
    def _check_authority(self) -> "DatabaseSettings":
        if self.ssl_mode == "verify-ca" and not self.ca_file:
            raise ValueError("ssl_mode is verify-ca and ca_file is not set: say which authority")
        return self
