"""Settings of the database."""

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .sections import Section


class DatabaseSettings(Section):
    """The SQL Server database; PIPELINE_DATABASE_PASSWORD of the environment holds the password."""

    host: str = "localhost"
    port: Annotated[int, Field(gt=0, le=65535)] = 1433
    name: str = "ingest"
    user: str = "ingest"
    encrypt: Literal["true", "strict", "false"] = "true"
    """true: TLS; strict: TLS before anything else, as TDS 8.0 has it; false: in the clear."""
    trust_server_certificate: bool = False
    """Whether any certificate will do; if not, Java's authorities, or those of the trustStore among
    ``properties``, must have signed it for that host."""
    properties: dict[str, str] = Field(default_factory=dict)
    """Others of the JDBC driver's properties, such as trustStore or multiSubnetFailover."""
    max_connections: Annotated[int, Field(gt=0)] = 8
    """Connections that a batch's tasks open at once, at most; the driver has one beside them."""
    connect_timeout_s: Annotated[int, Field(gt=1)] = 30
    """With 10 or less, the driver does not try again by itself while Azure moves a database."""
    url: str | None = None
    """A whole JDBC URL instead of host, port, name, TLS and properties; the tests set it."""
    driver: str = "com.microsoft.sqlserver.jdbc.SQLServerDriver"
    """The class of the JDBC driver; the tests set it."""

    @model_validator(mode="after")
    def _check_no_secret(self) -> "DatabaseSettings":
        given = [*self.properties, *re.findall(r"(\w+)\s*=", self.url or "")]
        if any(re.search("password|secret|token", name, re.IGNORECASE) for name in given):
            raise ValueError("a secret is among the properties: PIPELINE_DATABASE_PASSWORD has it")
        return self
