"""Settings of every test process."""

import os
from pathlib import Path

# The pipelines of the tests have settings of their own: yours, in the file or exported, may change
# without failing them.
for name in [*os.environ]:
    if name.upper().startswith("PIPELINE_") and name != "PIPELINE_JARS":
        del os.environ[name]
os.environ["PIPELINE_CONF"] = str(Path(__file__).with_name("pipeline.toml"))
# A test session is too short for the second compiler to pay: without it a run takes half the time.
# The first alone has room for 48 MB of code by default, which Spark fills, to compile it again.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
)
