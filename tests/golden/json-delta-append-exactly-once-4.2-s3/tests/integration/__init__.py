"""Tests of the pipeline against a real broker, a real Spark and a real table."""
