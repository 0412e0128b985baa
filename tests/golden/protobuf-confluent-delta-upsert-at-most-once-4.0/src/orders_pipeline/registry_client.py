"""One question to the schema registry: who asks, for how long, and what a refusal means.

The credentials come from the environment and go to the client alone: in no setting, message or log.
"""

import logging
import os
import time
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, TypeVar

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from httpx2 import TransportError

from .errors import NoAnswerError, RefusedError, SettingsError
from .registry_settings import RegistrySettings

Answer = TypeVar("Answer")

USER = "PIPELINE_REGISTRY_USER"
PASSWORD = "PIPELINE_REGISTRY_PASSWORD"  # noqa: S105  # a name
TOKEN = "PIPELINE_REGISTRY_TOKEN"  # noqa: S105
KEY_PASSWORD = "PIPELINE_REGISTRY_KEY_PASSWORD"  # noqa: S105
LONGEST_WAIT_S = 5.0
log = logging.getLogger(__name__)


def ask(
    registry: RegistrySettings, subject: str, question: Callable[[SchemaRegistryClient], Answer]
) -> Answer:
    """The answer to a question about a subject, asked again at growing intervals until it comes.

    Raises:
        RefusedError: no such subject, or no such version of it.
        NoAnswerError: none came within ``registry.timeout_s``, and the last attempt's time.
        SettingsError: what answers refuses the credentials or is no registry; or a certificate, a
            key or a variable is missing or wrong.
    """
    client = _client(registry)
    client.clear_caches()  # they go by the number of a version, which may come to mean another
    deadline = time.monotonic() + registry.timeout_s
    for attempt in count():
        try:
            return question(client)
        except SchemaRegistryError as error:
            problem = _passing_problem(registry, subject, error)
        except TransportError as error:
            problem = f"{type(error).__name__} {error}".strip()
            # A handshake cut short is a registry that goes down; all else in TLS stays as it is.
            if "[SSL" in problem and "EOF" not in problem:
                raise SettingsError(
                    f"No TLS with the schema registry at {registry.url}: {problem}. Check "
                    "registry.url, registry.ca_file, registry.certificate_file, registry.key_file."
                ) from None
        except ValueError:
            raise _no_registry(registry, "an answer that is not JSON") from None
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        log.warning("the schema registry does not answer (%s): asking again", problem)
        time.sleep(min(2**attempt / 4, LONGEST_WAIT_S, left_s))
    raise NoAnswerError(
        f"No answer from the schema registry at {registry.url} about {subject!r} within "
        f"{registry.timeout_s:g} s: {problem}. Nothing was written. Check registry.url, and that "
        "the registry is up, then start again."
    )


def _passing_problem(registry: RegistrySettings, subject: str, error: SchemaRegistryError) -> str:
    """What is wrong, where asking again may help. Its words stay out: they may repeat a secret."""
    status = error.http_status_code
    if status in (401, 403):
        ways = {"basic": f"check {USER} and {PASSWORD}", "bearer": f"check {TOKEN}"}
        way = ways.get(registry.auth, f"set it to basic ({USER}, {PASSWORD}) or bearer ({TOKEN})")
        raise SettingsError(
            f"The schema registry at {registry.url} refuses this pipeline (HTTP {status}). "
            f"registry.auth is {registry.auth}: {way}."
        ) from None
    # https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors
    if status == 404 and (error.error_code or 0) // 100 == 404:
        raise RefusedError(
            f"The schema registry at {registry.url} has no subject {subject!r}, or it is deleted. "
            "Nothing was written. Register the schema there, or correct registry.subject or "
            "registry.url, then start again."
        ) from None
    if status < 500 and status not in (408, 429):
        raise _no_registry(registry, f"HTTP {status}") from None
    return f"HTTP {status}"


def _no_registry(registry: RegistrySettings, answer: str) -> SettingsError:
    return SettingsError(
        f"There is no schema registry at {registry.url}: it gives {answer}. Check registry.url "
        "and its path: for Apicurio it ends in /apis/ccompat/v7."
    )


# A client keeps its connections, so there is one of each.
@cache
def _client(registry: RegistrySettings) -> SchemaRegistryClient:
    options: dict[str, Any] = {"url": registry.url, "timeout": registry.timeout_s / 3}
    options["max.retries"] = 0  # its own end within seconds, before a registry has restarted
    if registry.auth == "basic":
        options["basic.auth.user.info"] = f"{_secret(USER)}:{_secret(PASSWORD)}"
    if registry.auth == "bearer":
        options["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        options["bearer.auth.token"] = _secret(TOKEN)
        options["bearer.auth.logical.cluster"] = ""  # Confluent Cloud's; the client wants one
    if registry.ca_file:
        options["ssl.ca.location"] = str(registry.ca_file)
    if registry.certificate_file:
        options["ssl.certificate.location"] = str(registry.certificate_file)
        options["ssl.key.location"] = str(registry.key_file or registry.certificate_file)
        # With none at all, OpenSSL would ask for it on the terminal, and wait.
        options["ssl.key.password"] = os.environ.get(KEY_PASSWORD, "")
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # else it logs each question
    try:
        return SchemaRegistryClient(options)
    except OSError as error:  # all of ssl's errors are
        raise SettingsError(
            f"The certificates for the schema registry cannot be read: {error}. Check that "
            "registry.ca_file, registry.certificate_file and registry.key_file are PEM files, and "
            f"{KEY_PASSWORD} if the key is encrypted."
        ) from None


def _secret(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise SettingsError(f"The variable {name} is not set, and registry.auth asks for it.")
    if not (value.isascii() and value.isprintable()):
        # What no header takes would be shown in the error that says so.
        raise SettingsError(f"The variable {name} holds other characters than printable ASCII.")
    return value
