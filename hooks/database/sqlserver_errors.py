"""What SQL Server says of a statement that it does not do, and what follows from it."""

import re

PASSES_BY = {
    *(1204, 1205, 1222, 2714),  # locks: none left, a deadlock, not had in time; made by another
    *(701, 802, 8645, 8651),  # memory
    3906,  # read-only, as after a failover
    *(10928, 10929, 40020, 40143, 40166, 40197, 40501, 40540, 40613),  # Azure: restarts, is busy
}
"""Errors of what another transaction, or the server itself, will soon be done with."""
WRONG_LOGIN = {18456, 18470, 18486, 18487, 18488}
"""Errors of a login with a password that is wrong or too old, or that is disabled or locked."""
REFUSES = {
    **dict.fromkeys((2601, 2627), "a unique key"),
    **dict.fromkeys((220, 232, 8115), "a number too large"),
    **dict.fromkeys((2628, 8152), "a value too long"),
    **dict.fromkeys((241, 242, 245, 248, 8114, 8169), "a value that is none of the column's type"),
    515: "a null",
    547: "a constraint",
    1946: "a key too long for its index",
}
"""Errors of one row, in words that have nothing of its values in them."""


class DatabaseError(Exception):
    """What the database said of a statement."""

    def __init__(self, code: int, state: str, message: str, lost: bool = False) -> None:
        super().__init__(message)
        self.code, self.state, self.lost = code, state, lost
        """SQL Server's number of the error; its SQLSTATE; whether the connection is gone."""

    @property
    def refuses(self) -> bool:
        """True for a row that the table does not take, however often it is tried."""
        return self.code in REFUSES or self.state.startswith(("22", "23"))

    @property
    def passes_by(self) -> bool:
        """True for a lost connection, a deadlock and their like."""
        waited = self.state.startswith(("08", "40")) or self.state == "HYT00"
        return self.lost or self.code in PASSES_BY or waited

    @property
    def is_of_a_wait(self) -> bool:
        """True for a lock that was not had in time; nothing else of the transaction is undone."""
        return not self.lost and (self.code == 1222 or self.state == "HYT00")

    @property
    def is_null(self) -> bool:
        """True for a row that has no value for a column that wants one."""
        return self.code == 515 or self.state == "23502"

    @property
    def constraint(self) -> str | None:
        """The constraint that a row breaks; None where the message names none."""
        found = re.search(r"constraint (?:violation: )?[\"']([^\"':]+)", str(self), re.IGNORECASE)
        return found[1] if found else None

    @property
    def column(self) -> str | None:
        """The column that the message names, if it does."""
        found = re.search(r"column [\"']([^\"' ]+)", str(self))
        return found[1] if found else None

    @property
    def reason(self) -> str:
        """Why, for logs and dead letters: of a refused row the message may hold values."""
        if not self.refuses:
            number = f" (error {self.code}, SQLSTATE {self.state})"
            return f"{self}{number if self.code or self.state else ''}"
        named = f" ({self.constraint})" if self.constraint else ""
        return f"{REFUSES.get(self.code, 'a value')}{named}, error {self.code}"
