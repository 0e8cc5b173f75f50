"""The tests of what judges a run of chaos."""
