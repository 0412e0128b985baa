"""Settings: typed, validated, from three places, the first that names one wins.

1. the environment: ``PIPELINE_KAFKA__BOOTSTRAP_SERVERS=broker:9092`` (two underscores for a dot)
2. ``conf/pipeline.toml``, which a person edits (``PIPELINE_CONF`` names another file)
3. ``defaults.toml`` beside this module, written from the template's answers
"""

import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from .batch import read_offsets
from .errors import SettingsError
from .places import Location, under
from .sections import Section
from .table_settings import TableSettings, location_of

DEFAULTS = Path(__file__).with_name("defaults.toml")
log = logging.getLogger(__name__)
PREFIX = "PIPELINE_"
NO_SETTINGS = {
    "PIPELINE_CONF",
    "PIPELINE_JARS",
}
"""Variables of that prefix that are no settings."""
SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+(%\w+)?\]|[0-9A-Za-z._-]+):(?P<port>[0-9]{1,5})")
Ratio = Annotated[float, Field(gt=0, le=1)]


def _check_start(text: str) -> str:
    if text not in ("earliest", "latest"):
        read_offsets(text)
    return text


def _check_servers(text: str) -> str:
    """Without a port librdkafka would take 9092, and Spark's client none."""
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        found = SERVER.fullmatch(server)
        if not found or not 0 < int(found["port"]) < 65536:
            raise ValueError(
                f"{server!r} is not host:port. Write each broker with its port, and commas between "
                "them: broker-1:9092,broker-2:9092,[::1]:9092"
            )
    return ",".join(servers)


class KafkaSettings(Section):
    """How the topics are read."""

    bootstrap_servers: Annotated[str, AfterValidator(_check_servers)] = "localhost:9092"
    starting_offsets: Annotated[str, AfterValidator(_check_start)] = "earliest"
    """Only for a topic that has no checkpoint yet: earliest, latest, or JSON {"0": 123, ...}."""
    max_offsets_per_trigger: Annotated[int, Field(gt=0)] = 1_000_000
    """Records in one batch, at most, all partitions together."""
    max_records_per_partition: Annotated[int, Field(gt=0)] = 250_000
    """Records in one Spark task, at most, so that one hot Kafka partition is shared by several."""
    consumer_group: str | None = None
    """Where the progress is published for lag tools; the pipeline's name when not set."""


class DecodeSettings(Section):
    """How strictly values are read."""

    unknown_fields: Literal["ignore", "reject"] = "ignore"


class DeadLetterSettings(Section):
    """Where rejected records go."""

    topic_suffix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]+$")] = ".DLT"
    on_failure: Literal["stop", "continue"] = "stop"
    """When the dead letters cannot be stored: stop the query, or log each one's coordinates."""


class BreakerSettings(Section):
    """When rejected records mean that something is wrong with the schema, not with the records."""

    max_rejected_ratio: Ratio = 0.5
    min_rejected: Annotated[int, Field(gt=0)] = 100
    """Fewer rejected records than this in a batch never stop the query, whatever their ratio."""


class MetricsSettings(Section):
    """Where the counters can be scraped."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """The port of the Prometheus endpoint; 0 for none."""


@dataclass(frozen=True)
class Topic:
    """One topic and all that its query needs to know."""

    name: str
    location: str
    """Where its table is."""
    checkpoint: str
    schema_path: Path
    dead_letters: str
    """The topic that takes its rejected records."""
    table: TableSettings
    settings: "Settings"


class Settings(BaseSettings):
    """The whole configuration of the pipeline."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    name: str
    topics: Annotated[list[str], Field(min_length=1)]
    trigger: Annotated[str, Field(pattern=r"^([1-9]\d* seconds|availableNow)$")]
    """"30 seconds", or "availableNow": read what is there, then end."""
    checkpoint_location: Location
    """Where each query keeps its place: s3a://my-bucket/prefix."""
    schemas: Path = Path("schemas")
    kafka: KafkaSettings = KafkaSettings()
    table: TableSettings
    decode: DecodeSettings = DecodeSettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    breaker: BreakerSettings = BreakerSettings()
    metrics: MetricsSettings = MetricsSettings()
    topic: dict[str, dict[str, Any]] = {}
    """For a topic by its name: fields of ``table`` that differ for it."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Orders the sources; see the module's docstring."""
        return (
            init_settings,
            env_settings,
            TomlConfigSettingsSource(settings_cls, _file()),
            TomlConfigSettingsSource(settings_cls, DEFAULTS),
        )

    @cached_property
    def tables(self) -> dict[str, TableSettings]:
        """For each topic, ``table`` with what ``topic`` says of it."""
        return {name: self._table_of(name) for name in self.topics}

    def _table_of(self, name: str) -> TableSettings:
        try:
            own = {key: _of_json(value) for key, value in self.topic.get(name, {}).items()}
            return TableSettings.model_validate(self.table.model_dump() | own)
        except ValidationError as error:
            raise ValueError(f'topic."{name}": {_listed(error)}') from None

    @model_validator(mode="after")
    def _check_topics(self) -> "Settings":
        unknown = sorted(self.topic.keys() - set(self.topics))
        if unknown:
            raise ValueError(f"topic.{unknown[0]} is not one of topics, which are {self.topics}")
        if len(set(self.topics)) < len(self.topics):
            raise ValueError(f"topics has one of its names twice: {self.topics}")
        self.tables  # noqa: B018  # a wrong override is an error now, not when its query starts
        return self

    @property
    def consumer_group(self) -> str:
        """The group that publishes this pipeline's progress."""
        return self.kafka.consumer_group or self.name

    def topic_settings(self, name: str) -> Topic:
        """What the query of the topic ``name`` needs.

        Raises:
            SettingsError: the pipeline does not ingest that topic.
        """
        if name not in self.topics:
            raise SettingsError(
                f"{name!r} is not a topic of this pipeline. It has: {', '.join(self.topics)}."
            )
        table = self.tables[name]
        return Topic(
            name=name,
            location=location_of(name, table),
            checkpoint=under(self.checkpoint_location, name),
            schema_path=self.schemas / f"{name}.ddl",
            dead_letters=name + self.dead_letters.topic_suffix,
            table=table,
            settings=self,
        )


def _file() -> Path:
    return Path(os.environ.get("PIPELINE_CONF", "conf/pipeline.toml"))


def _check_variables() -> None:
    """Reports variables with our prefix that no setting reads, and that pydantic leaves out.

    One without two underscores is only a warning: a Kubernetes Service called ``pipeline`` sets
    some.
    """
    ours = [name for name in sorted(os.environ) if name.upper().startswith(PREFIX)]
    firsts = {name: name[len(PREFIX) :].lower().split("__")[0] for name in ours}
    unread = [
        name
        for name, first in firsts.items()
        if first not in Settings.model_fields and name not in NO_SETTINGS
    ]
    known = f"after {PREFIX} comes one of {', '.join(Settings.model_fields)}"
    if nested := [name for name in unread if "__" in name]:
        raise SettingsError(
            f"The environment has {', '.join(nested)}, which no setting is called. Correct the "
            f"name, or unset it: {known}, then two underscores for each dot."
        )
    for name in unread:
        log.warning("the variable %s is not read: %s", name, known)


def _of_json(value: Any) -> Any:
    """What a variable says of a list or a table, in JSON; whatever else as it is."""
    if isinstance(value, str) and value.startswith(("[", "{")):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _listed(error: ValidationError) -> str:
    """What is wrong, each with the setting's name; nothing of the values."""
    problems = []
    for problem in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in problem["loc"])
        said = problem["msg"].removeprefix("Value error, ")
        problems.append(f"{where}: {said}" if where else said)
    return "; ".join(problems)


def load() -> Settings:
    """Reads and validates the settings.

    Raises:
        SettingsError: one sentence for each wrong setting, with its name and what is wrong.
    """
    if "PIPELINE_CONF" in os.environ and not _file().exists():
        raise SettingsError(f"PIPELINE_CONF names {_file()}, which is not there.")
    _check_variables()
    try:
        return Settings()  # type: ignore[call-arg]  # the sources give the required ones
    except ValidationError as error:
        raise SettingsError(f"The settings are wrong. {_listed(error)}") from None
    except ValueError as error:
        raise SettingsError(
            f"The settings cannot be read: {error}. {_file()} is TOML; in the environment a list "
            'is JSON, such as ["id"].'
        ) from None
