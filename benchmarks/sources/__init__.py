"""A source of splits that take a known time, for the figures of sources that are read by splits."""
