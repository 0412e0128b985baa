"""Settings of the schema registry."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from .sections import Section


class RegistrySettings(Section):
    """The schema registry; what it is told in secret comes by the variables that ``auth`` names."""

    url: str = "http://localhost:8081"
    """Where its Confluent-compatible API is, without credentials in it."""
    auth: Literal["none", "basic", "bearer"] = "none"
    """basic: with PIPELINE_REGISTRY_USER and PIPELINE_REGISTRY_PASSWORD of the environment;
    bearer: with PIPELINE_REGISTRY_TOKEN."""
    subject: Annotated[str, Field(min_length=1)] = "{topic}-{part}"
    """Under which name a topic's schemas are registered: {topic} stands for its own, {part} for
    value or key."""
    ca_file: Path | None = None
    """The authority that signed the registry's certificate, in PEM; when not set, the file of
    SSL_CERT_FILE, else the list that certifi carries."""
    certificate_file: Path | None = None
    """The certificate to show to the registry, in PEM, where it asks for one (mutual TLS)."""
    key_file: Path | None = None
    """That certificate's key, if it is not in the same file; PIPELINE_REGISTRY_KEY_PASSWORD opens
    an encrypted one."""
    timeout_s: Annotated[float, Field(gt=0)] = 30
    """How long to ask again while the registry does not answer, before the query stops."""
    new_fields: Literal["ignore", "add"] = "ignore"
    """Fields of a new version that ``schemas/`` has not: not read, or taken up while running: the
    table gets a nullable column. Only those of the record itself, not of one within it."""

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        # A password may hold any character, so that no part of such a URL is where it should be.
        if "@" in url:
            raise ValueError(
                "holds credentials. Take them out, set auth to basic, and give them by "
                "PIPELINE_REGISTRY_USER and PIPELINE_REGISTRY_PASSWORD"
            )
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ValueError("is not a URL such as https://registry.example.com:8081")
        return url

    @model_validator(mode="after")
    def _check_files(self) -> "RegistrySettings":
        if self.key_file and not self.certificate_file:
            raise ValueError("key_file is set and certificate_file is not: set both, or none")
        return self
