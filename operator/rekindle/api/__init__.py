"""The custom resources and their settings as pydantic models: what a user writes, checked once."""
