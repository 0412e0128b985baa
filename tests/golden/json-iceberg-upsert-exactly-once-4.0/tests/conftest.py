"""Settings of every test process."""

import os

from tests.support.environment import leave_out_settings

leave_out_settings()
# A test session is too short for the second compiler to pay: without it a run takes half the time.
# The first alone has room for 48 MB of code by default, which Spark fills, to compile it again.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
)
# Spark keeps something of each query that has ended: hundreds in one session fill its gigabyte.
os.environ.setdefault("SPARK_DRIVER_MEMORY", "2g")
