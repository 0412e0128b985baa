"""From Kafka topics to tables; ``pipeline.py`` is the page to read first."""
