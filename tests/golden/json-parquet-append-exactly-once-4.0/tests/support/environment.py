"""The settings of tests and of the demo are their own, not the pipeline's."""

import os


def leave_out_settings() -> None:
    """Takes the pipeline's settings out of this process: those of conf/ and those exported.

    They may change without failing a test, and no test and no demo writes to a table of theirs.
    """
    for name in [*os.environ]:
        if name.upper().startswith("PIPELINE_") and name != "PIPELINE_JARS":
            del os.environ[name]
    os.environ["PIPELINE_CONF"] = os.devnull
