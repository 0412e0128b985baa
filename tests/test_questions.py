"""Tier 1: each rule, each refusal, awkward input. No Spark."""

import importlib.metadata
import json
import keyword
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import copier
import pytest
import yaml
from copier.errors import CopierError

from rendering import MATRIX, ROOT, choices, render

UPSERT = {"write_mode": "upsert"}


def refusal(dest: Path, **answers: Any) -> str:
    """What a user reads who gives these answers."""
    with pytest.raises((ValueError, CopierError)) as raised:
        render(dest, **answers)
    assert not any(dest.iterdir()), "a refused copy leaves nothing behind"
    return str(raised.value)


def answers_of(repository: Path) -> dict[str, Any]:
    answers: dict[str, Any] = yaml.safe_load((repository / ".copier-answers.yml").read_text())
    return {name: value for name, value in answers.items() if not name.startswith("_")}


def test_every_question_has_a_default(tmp_path: Path) -> None:
    assert answers_of(render(tmp_path)) == {
        "project_name": "orders-pipeline",
        "topics": ["orders"],
        "value_format": "json",
        "schema_registry": "none",
        "sink": "delta",
        "storage": "local",
        "write_mode": "append",
        "delivery_guarantee": "exactly-once",
        "trigger": "30 seconds",
        "spark_version": "4.2",
        "ci": "github",
    }


def test_the_default_is_the_first_on_offer_when_there_is_a_choice(tmp_path: Path) -> None:
    stored = answers_of(render(tmp_path))
    asked = MATRIX["answers"].keys() - {"output_format"}  # which is for another sink
    assert {name: stored[name] for name in asked} == {name: choices(name)[0] for name in asked}


def test_every_question_has_help_and_a_rule() -> None:
    questions = {
        name: details
        for name, details in yaml.safe_load((ROOT / "copier.yml").read_text()).items()
        if not name.startswith("_") and details.get("when") is not False
    }
    assert len(questions) <= 15
    for name, details in questions.items():
        assert details["help"].strip(), name
        assert details.get("validator") or details.get("choices"), name


def test_nothing_in_the_template_needs_trust() -> None:
    settings = yaml.safe_load((ROOT / "copier.yml").read_text())
    assert not {"_tasks", "_migrations", "_jinja_extensions"} & settings.keys()


@pytest.mark.parametrize(
    ("answers", "quoted", "valid"),
    [
        ({"project_name": "Orders"}, "Orders", "orders-pipeline"),
        ({"project_name": "orders_pipeline"}, "orders_pipeline", "orders-pipeline"),
        ({"project_name": "2orders"}, "2orders", "orders-pipeline"),
        ({"project_name": "orders-"}, "orders-", "orders-pipeline"),
        ({"project_name": "orders--x"}, "orders--x", "orders-pipeline"),
        ({"project_name": "a/../b"}, "a/../b", "orders-pipeline"),
        ({"project_name": "orders\n"}, "orders", "orders-pipeline"),
        ({"project_name": ""}, '""', "orders-pipeline"),
        ({"project_name": "bestellungen-ü"}, "bestellungen-ü", "orders-pipeline"),
        ({"project_name": "o" * 41}, "41", "orders-pipeline"),
        ({"project_name": "class"}, "class", "class-pipeline"),
        ({"project_name": "json"}, "json", "json-pipeline"),
        ({"project_name": "pyspark"}, "pyspark", "pyspark-pipeline"),
        ({"project_name": "delta"}, "delta", "delta-pipeline"),
        ({"project_name": "confluent-kafka"}, "confluent_kafka", "confluent-kafka-pipeline"),
        ({"project_name": "tests"}, "tests", "tests-pipeline"),
        ({"project_name": "test"}, "test", "test-pipeline"),
        ({"project_name": "conftest"}, "conftest", "conftest-pipeline"),
        ({"project_name": "test-names"}, "test_names", "test-names-pipeline"),
        ({"package_name": "other"}, "other", "orders_pipeline"),
        ({"topics": "my orders"}, "my orders", "orders.v1"),
        ({"topics": "orders/../x"}, "orders/../x", "orders.v1"),
        ({"topics": "börse"}, "börse", "orders.v1"),
        ({"topics": ["orders\n"]}, "orders", "orders.v1"),
        ({"topics": "."}, ".", "orders"),
        ({"topics": ".."}, "..", "orders"),
        ({"topics": "o" * 250}, "250", "orders"),
        ({"topics": "o" * 246}, "246", "245"),
        ({"topics": "orders.DLT"}, "orders.DLT", "example orders."),
        ({"topics": "orders, orders.dlt"}, "orders.dlt", "example orders."),
        ({"topics": ".DLT"}, ".DLT", "orders"),
        ({"topics": "-orders"}, "-orders", "orders"),
        ({"topics": "orders, orders"}, "orders", "once"),
        ({"topics": "a.b, a_b"}, "a_b", "Rename"),
        ({"topics": "Orders, orders"}, "orders", "Rename"),
        ({"topics": ""}, "topic", "orders, refunds"),
        ({"topics": "[]"}, "topic", "orders, refunds"),
        ({"topics": [1]}, "1", '["1"]'),
        ({"topics": "{orders: 1}"}, "orders", "orders, refunds"),
        ({"topics": 3}, "3", "orders, refunds"),
        ({"topics": [True]}, "true", "in quotes"),
        ({"topics": "a-b, a_b", "sink": "postgres"}, "a_b", "Leave one out"),
        ({"topics": "a.b, A-b", "sink": "sqlserver"}, "A-b", "Leave one out"),
        ({"topics": "a-b, a.b", "sink": "iceberg"}, "a.b", "Leave one out"),
        ({"topics": "orders.out, orders", "sink": "kafka"}, "orders.out", "Leave it out"),
        ({"value_format": "xml"}, "xml", "avro"),
        ({"schema_registry": "karapace"}, "karapace", "confluent"),
        ({"sink": "hudi"}, "hudi", "iceberg"),
        ({"sink": "parquet", **UPSERT}, "Parquet", "append"),
        ({"sink": "kafka", **UPSERT}, "Kafka", "cleanup.policy=compact"),
        ({"sink": "kafka", "output_format": "xml"}, "xml", "avro"),
        ({"output_format": "avro"}, "avro", "kafka"),
        ({"storage": "hdfs"}, "hdfs", "s3"),
        ({"write_mode": "merge"}, "merge", "upsert"),
        ({**UPSERT, "key_columns": "[]"}, "key column", "customer_id, order_id"),
        ({**UPSERT, "key_columns": "id, id"}, "id", "once"),
        ({**UPSERT, "key_columns": "id, ID"}, "ID", "Rename"),
        (
            {**UPSERT, "value_format": "protobuf", "key_columns": "orderId, order_id"},
            "order_id",
            "once",
        ),
        ({**UPSERT, "key_columns": "_offset"}, "_offset", "example id"),
        ({**UPSERT, "key_columns": "_Timestamp"}, "_Timestamp", "example id"),
        ({**UPSERT, "sink": "iceberg", "key_columns": "_File"}, "_File", "example id"),
        ({**UPSERT, "key_columns": "order id"}, "order id", "order_id"),
        ({**UPSERT, "key_columns": "a`b"}, "a`b", "order_id"),
        ({"key_columns": "id"}, "id", "upsert"),
        ({"delivery_guarantee": "exactly_once"}, "exactly_once", "exactly-once"),
        ({"trigger": "1 minute"}, "1 minute", "30 seconds"),
        ({"trigger": "0 seconds"}, "0 seconds", "30 seconds"),
        ({"trigger": "30"}, "30", "30 seconds"),
        ({"trigger": "-5 seconds"}, "-5 seconds", "30 seconds"),
        ({"trigger": "availablenow"}, "availablenow", "availableNow"),
        ({"spark_version": "3.5"}, "3.5", "4.2"),
        ({"ci": "jenkins"}, "jenkins", "gitlab"),
    ],
    ids=repr,
)
def test_a_wrong_answer_is_refused_with_itself_and_a_valid_one(
    tmp_path: Path, answers: dict[str, Any], quoted: str, valid: str
) -> None:
    sentence = refusal(tmp_path, **answers)
    assert quoted in sentence
    assert valid in sentence
    assert "\n" not in sentence
    assert "  " not in sentence


@pytest.mark.parametrize(
    ("answers", "topics"),
    [
        ({"topics": "orders"}, ["orders"]),
        ({"topics": "orders, refunds"}, ["orders", "refunds"]),
        ({"topics": "orders,refunds,"}, ["orders", "refunds"]),
        ({"topics": "[orders, refunds]"}, ["orders", "refunds"]),
        ({"topics": ["a.b", "A-2", "_x"]}, ["a.b", "A-2", "_x"]),
        ({"topics": "o" * 245}, ["o" * 245]),
        ({"topics": ["123", "null", "on"]}, ["123", "null", "on"]),
        ({"topics": "[orders, 2026-01-31]"}, ["orders", "2026-01-31"]),
    ],
)
def test_topics_are_taken_as_a_list_or_with_commas(
    tmp_path: Path, answers: dict[str, Any], topics: list[str]
) -> None:
    render(tmp_path, **answers)
    assert {path.stem for path in (tmp_path / "schemas").iterdir()} == set(topics)


@pytest.mark.parametrize(
    "answers",
    [
        {"topics": "a-b, a_b"},
        {"topics": "o" * 245, "sink": "postgres"},
        {"topics": "orders, refunds.out", "sink": "kafka"},
    ],
    ids=repr,
)
def test_topics_are_taken_that_another_sink_does_not_take(
    tmp_path: Path, answers: dict[str, Any]
) -> None:
    render(tmp_path, **answers)


def test_key_column_is_refused_whatever_iceberg_has_of_its_own(tmp_path: Path) -> None:
    rendered = render(tmp_path / "iceberg", sink="iceberg")
    shapes = (rendered / "src/orders_pipeline/shapes.py").read_text()
    partition, metadata = re.findall(r"^(?:PARTITION|METADATA) = ([^}]*?\n)(?=\S)", shapes, re.M)
    names = re.findall(r'"(\w+)"', partition + metadata)
    assert len(names) == 10
    refused = tmp_path / "refused"
    refused.mkdir()
    sentence = refusal(refused, sink="iceberg", key_columns=names, **UPSERT)
    assert [name for name in names if f"{name} is a column" not in sentence] == []


def test_default_spark_is_one_that_the_sink_has(tmp_path: Path) -> None:
    assert answers_of(render(tmp_path, sink="iceberg"))["spark_version"] == "4.0"


@pytest.mark.parametrize("storage", ["s3", "gcs"])
def test_iceberg_goes_into_a_bucket_by_a_service_that_has_to_be_named(
    tmp_path: Path, storage: str
) -> None:
    render(tmp_path, sink="iceberg", storage=storage)
    table = tomllib.loads((tmp_path / "conf/pipeline.toml").read_text())["table"]
    assert table["catalog"] == "rest"
    assert "catalog_uri" not in table


@pytest.mark.parametrize("rule", MATRIX["refused"], ids=lambda rule: str(rule["answers"]))
def test_what_the_matrix_refuses_is_refused_in_its_words(
    tmp_path: Path, rule: dict[str, Any]
) -> None:
    assert rule["why"] in refusal(tmp_path, **rule["answers"])


def test_the_message_after_a_copy_names_the_first_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copier.run_copy(
        str(ROOT), tmp_path / "new", data={"topics": "a, b"}, defaults=True, vcs_ref="HEAD"
    )
    shown = capsys.readouterr().err
    for step in ("cd ", "git init", "make demo", "make test", "schemas/a.ddl, schemas/b.ddl"):
        assert step in shown


def of_the_tests() -> set[str]:
    """The modules that pytest imports by their bare names in a generated repository."""
    tests = ROOT / "template/tests"
    packages = {path.parent.name for path in tests.glob("*/__init__.py")}
    files = [*tests.glob("*.py"), *tests.glob("unit/*.py*")]
    return packages | {found for path in files for found in re.findall(r"\w+(?=[.]py)", path.name)}


def test_no_name_of_this_python_or_of_a_package_here_is_free_for_a_package() -> None:
    """A project that is called as a package is cannot have it installed beside itself."""
    reserved = set().union(*json.loads((ROOT / "hooks/reserved_names.json").read_text()).values())
    installed = (each.metadata["Name"] for each in importlib.metadata.distributions())
    packages = {re.sub("[-.]", "_", name.lower()) for name in installed}
    imported = importlib.metadata.packages_distributions()
    library = {*sys.stdlib_module_names, "test"}  # which Python does not count among its own
    taken = {*keyword.kwlist, *keyword.softkwlist, *library, *packages, *imported, *of_the_tests()}
    possible = {name for name in taken if re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)}
    assert possible <= reserved
