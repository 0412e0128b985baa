"""Settings of every test process."""

import os

# A test session is too short for the second compiler to pay: without it a run takes half the time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
