"""What SQL Server is sent, as it gets it, and what is made of its answers; no server has a part.

H2, which the integration tests run on, never sees the locking hint and the collation.
"""

import os
import re
import time
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from orders_pipeline import sink
from orders_pipeline.catalog import columns_of
from orders_pipeline.column_types import holds
from orders_pipeline.database import (
    PASSWORD,
    Connection,
    address,
    try_again,
)
from orders_pipeline.database_errors import DatabaseError
from orders_pipeline.settings import Settings, Topic
from orders_pipeline.staging import Staging
from orders_pipeline.table import _check_names, _create
from orders_pipeline.table_settings import check_tables

from tests.support.environment import leave_out_settings

AWKWARD = "a [key] of 'ours' ?"
STAGING = Staging(
    "[dbo].[_ingest_1]",
    1,
    {
        AWKWARD: "staged.c0",
        "order": "CAST(staged.c1 AS datetimeoffset(6))",
        "_topic": "staged.c2",
        "_partition": "staged.c3",
        "_offset": "staged.c4",
        "_timestamp": "CAST(staged.c5 AS datetimeoffset(6))",
        "_deleted": "staged.c6",
    },
)


class Recorder(Connection):
    """A connection that keeps what it is told to execute; of a table it finds the ``columns``."""

    def __init__(self, *columns: tuple[Any, ...]) -> None:
        self.statements: list[str] = []
        self.columns = list(columns)

    def execute(self, statement: str, *values: Any) -> int:
        """Keeps a statement."""
        self.statements.append(statement)
        return 0

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Keeps a statement."""
        self.statements.append(statement)
        return self.columns if "sys.columns" in statement else [(1,)]


def topic(**database: Any) -> Topic:
    general: dict[str, Any] = {
        "name": "p",
        "topics": ["orders"],
        "trigger": "availableNow",
        "database": {"host": "db", "port": 1433, "name": "d", "user": "u"} | database,
        "table": {"schema_name": "dbo", "key_columns": [AWKWARD], "newest_by": "order"},
        "topic": {},
    }
    return Settings(**general).topic_settings("orders")


def parsed(statement: str) -> exp.Expression:
    [found] = filter(None, sqlglot.parse(statement, read="tsql"))
    assert isinstance(found, exp.Expression)
    return found


def test_both_merges_hold_the_range_of_their_keys_until_the_transaction_ends() -> None:
    """Without the hint, two that insert one key at once both find none."""
    recorder = Recorder()
    sink._merge(recorder, topic(), STAGING)("1 = 1")

    deletion, change = map(parsed, recorder.statements)
    for merge in (deletion, change):
        assert isinstance(merge, exp.Merge)
        hints = [hint.name for found in merge.this.args["hints"] for hint in found.expressions]
        assert hints == ["HOLDLOCK", "UPDLOCK"]
    [delete] = deletion.args["whens"].expressions
    assert delete.args["then"].sql() == "DELETE"
    then = [type(when.args["then"]) for when in change.args["whens"].expressions]
    assert then == [exp.Update, exp.Insert]


def test_key_of_text_compares_byte_by_byte() -> None:
    recorder = Recorder()
    _create(recorder, topic(), {AWKWARD: "nvarchar(450)", "order": "datetimeoffset(6)"})

    [statement] = recorder.statements
    assert isinstance(parsed(statement), exp.Create)
    assert "COLLATE Latin1_General_100_BIN2 NOT NULL" in statement


def test_value_is_wanted_in_no_column_that_sql_server_fills() -> None:
    """What ``sys.columns`` says: nullable, identity, computed, a default's number, generated."""
    ways = {
        "wanted": ("int", 0, 0, 0, 0, 0),
        "nullable": ("int", 1, 0, 0, 0, 0),
        "defaulted": ("int", 0, 0, 0, 7, 0),
        "version": ("timestamp", 0, 0, 0, 0, 0),
        "valid_from": ("datetime2", 0, 0, 0, 0, 1),
        "valid_to": ("datetime2", 0, 0, 0, 0, 2),
    }
    rows = [(name, kind, 8, 0, 7, None, *filled) for name, (kind, *filled) in ways.items()]
    recorder = Recorder(*rows)
    held = columns_of(recorder, topic())

    assert all(isinstance(parsed(each), exp.Select) for each in recorder.statements)
    assert [name for name, column in held.items() if column.needs_value] == ["wanted"]


def test_start_asks_for_each_column_as_it_is_spelt() -> None:
    """A database that tells case apart has the ``id`` that is asked for, or says what is wrong."""
    recorder = Recorder()
    _check_names(recorder, topic(), {"id": "int", AWKWARD: "int"})

    [statement] = recorder.statements
    found = parsed(statement)
    assert isinstance(found, exp.Select)
    assert found.named_selects == ["id", AWKWARD]


def test_two_topics_are_refused_when_their_tables_differ_in_case_only() -> None:
    tables = {
        name: topic().table.model_copy(update={"schema_name": schema_name, "table_name": name})
        for schema_name, name in (("dbo", "orders"), ("DBO", "Orders"))
    }
    with pytest.raises(ValueError, match="cannot be called orders: another is"):
        check_tables(tables)


def test_server_is_reached_by_tls_and_its_certificate_is_verified_unless_told_otherwise() -> None:
    url = address(topic().settings)
    assert url.startswith("jdbc:sqlserver://db:1433;databaseName=d;")
    assert "encrypt=true;trustServerCertificate=false;" in url


def test_property_cannot_end_where_it_should_not() -> None:
    properties = {"hostNameInCertificate": "x;encrypt=false}"}
    url = address(topic(properties=properties).settings)
    assert url.endswith(";hostNameInCertificate={x;encrypt=false}}}")


@pytest.mark.parametrize(
    ("error", "passes_by", "refuses"),
    [
        (DatabaseError(1205, "40001", "was deadlocked and chosen as the victim"), True, False),
        (DatabaseError(1222, "S0051", "Lock request time out period exceeded."), True, False),
        (DatabaseError(3906, "S0001", "Failed to update database, it is read-only"), True, False),
        (DatabaseError(0, "08S01", "Connection reset"), True, False),
        (DatabaseError(2627, "23000", "Violation of UNIQUE KEY constraint 'k'. (x)"), False, True),
        (DatabaseError(2628, "S0001", "would be truncated in table 't'. Value: 'x'"), False, True),
        (DatabaseError(8115, "S0002", "Arithmetic overflow error"), False, True),
        (DatabaseError(229, "S0005", "The INSERT permission was denied"), False, False),
    ],
)
def test_error_is_known_by_its_number(error: DatabaseError, passes_by: bool, refuses: bool) -> None:
    assert (error.passes_by, error.refuses) == (passes_by, refuses)
    assert not (refuses and re.search("'x'|\\(x\\)", error.reason))


def test_password_of_a_real_server_stays_for_the_tests_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "environ", {PASSWORD: "its", "PIPELINE_DATABASE__HOST": "another"})
    leave_out_settings()
    assert PASSWORD not in os.environ

    given = {PASSWORD: "its", "PIPELINE_DATABASE__HOST": "another", "SQLSERVER_URL": "jdbc:…"}
    monkeypatch.setattr(os, "environ", given)
    leave_out_settings()
    assert os.environ[PASSWORD] == "its"
    assert "PIPELINE_DATABASE__HOST" not in os.environ


def test_log_says_what_ended_an_attempt_and_no_value(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    errors = [
        DatabaseError(2627, "23000", "Violation of UNIQUE KEY constraint 'k'. (x)", lost=True),
        DatabaseError(1205, "40001", "was deadlocked"),
    ]

    def attempt() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert try_again(attempt) == "done"
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "attempt 1 of 5 ended: was deadlocked (error 1205, SQLSTATE 40001)",
        "attempt 2 of 5 ended: a unique key (k), error 2627",
    ]


def test_reason_names_the_constraint_and_no_value() -> None:
    said = 'The MERGE statement conflicted with the CHECK constraint "small". The conflict …'
    assert DatabaseError(547, "23000", said).reason == "a constraint (small), error 547"
    said = "Cannot insert the value NULL into column 'owner', table 'd.dbo.t'; …"
    assert DatabaseError(515, "23000", said).column == "owner"


@pytest.mark.parametrize(
    ("there", "wanted", "fits"),
    [
        ("bigint", "int", True),
        ("smallint", "int", False),
        ("decimal(12,2)", "decimal(10,2)", True),
        ("decimal(12,4)", "decimal(10,2)", True),
        ("decimal(11,4)", "decimal(10,2)", False),
        ("decimal(12,1)", "decimal(10,2)", False),
        ("nvarchar(10)", "nvarchar(max)", True),
        ("varchar(10)", "nvarchar(max)", False),
        ("datetimeoffset(7)", "datetimeoffset(6)", True),
        ("datetimeoffset(3)", "datetimeoffset(6)", False),
        ("datetime2(7)", "datetimeoffset(6)", False),
    ],
)
def test_column_fits_where_no_value_is_cut_or_rounded(there: str, wanted: str, fits: bool) -> None:
    assert holds(there, wanted) == fits
