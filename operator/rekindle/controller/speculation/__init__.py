"""Slow tasks of running applications: seen through their drivers' REST, and what is done about them."""
