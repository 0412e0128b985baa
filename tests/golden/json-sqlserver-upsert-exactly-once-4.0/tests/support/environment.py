"""The settings of tests and of the demo are their own, not the pipeline's."""

import os


def leave_out_settings() -> None:
    """Takes the pipeline's settings out of this process: those of conf/ and those exported.

    They may change without failing a test, and no test and no demo writes to a table of theirs.
    """
    kept = {"PIPELINE_JARS"}
    if "SQLSERVER_URL" in os.environ:  # a real server, which has a password of its own
        kept.add("PIPELINE_DATABASE_PASSWORD")
    for name in [*os.environ]:
        if name.upper().startswith("PIPELINE_") and name not in kept:
            del os.environ[name]
    os.environ["PIPELINE_CONF"] = os.devnull
