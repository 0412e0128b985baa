"""Where a setting comes from, and what is said of a wrong one."""

from pathlib import Path

import pytest

from orders_pipeline.errors import SettingsError
from orders_pipeline.settings import load


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file of the test's own, empty."""
    path = tmp_path / "pipeline.toml"
    path.touch()
    monkeypatch.setenv("PIPELINE_CONF", str(path))
    monkeypatch.setenv("PIPELINE_TOPICS", '["orders", "refunds"]')
    return path


def test_environment_wins_over_the_file_and_the_file_over_the_defaults(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf.write_text('trigger = "7 seconds"\n[kafka]\nbootstrap_servers = "file:9092"\n')
    monkeypatch.setenv("PIPELINE_KAFKA__BOOTSTRAP_SERVERS", "environment:9092")
    settings = load()
    assert settings.trigger == "7 seconds"
    assert settings.kafka.bootstrap_servers == "environment:9092"
    assert settings.consumer_group == "orders-pipeline"


def test_topic_takes_what_is_said_of_it_and_the_rest_from_table(conf: Path) -> None:
    conf.write_text('[table]\nlocation = "s3a://lake/"\n[topic."refunds"]\nlocation = "here"\n')
    settings = load()
    assert settings.topic_settings("orders").location == "s3a://lake/orders"
    assert settings.topic_settings("refunds").location == str(Path("here/refunds").resolve())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('trigger = "often"', "trigger"),
        ("[breaker]\nmax_rejected_ratio = 7", "breaker.max_rejected_ratio"),
        ("[kafka]\nbootstrap_server = 1", "kafka.bootstrap_server: Extra inputs"),
        ("[kafka]\nstarting_offsets = '{\"0\": 12,}'", "kafka.starting_offsets: .* is not offsets"),
        ('[kafka]\nstarting_offsets = \'{"orders": {"0": 12}}\'', "is not offsets"),
        ("[kafka", "cannot be read"),
        ('[topic."other"]\nschema_changes = "add"', "topic.other is not one of topics"),
    ],
)
def test_wrong_setting_is_named(conf: Path, text: str, said: str) -> None:
    conf.write_text(text)
    with pytest.raises(SettingsError, match=said):
        load()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PIPELINE_CONF", "/nowhere/pipeline.toml", "PIPELINE_CONF names /nowhere"),
        ("PIPELINE_TOPICS", "orders", 'field "topics"'),
        ("PIPELINE_TOPICS", '["orders", "orders"]', "one of its names twice"),
    ],
)
def test_wrong_variable_is_named(
    conf: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=said):
        load()


def test_unknown_topic_is_refused_with_those_that_there_are(conf: Path) -> None:
    with pytest.raises(SettingsError, match="It has: orders, refunds"):
        load().topic_settings("nothing")
