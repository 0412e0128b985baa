"""The command line as a process of its own, without your transform.py: what tests start."""

import sys

from orders_pipeline import columns, pipeline
from orders_pipeline.cli import main

for module in (columns, pipeline):
    vars(module)["transform"] = lambda topic, rows: rows

sys.exit(main())
