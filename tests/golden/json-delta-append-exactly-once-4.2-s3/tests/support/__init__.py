"""What the tests and the demo stand on: a real broker, and topics in it."""
