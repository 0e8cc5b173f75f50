"""Sources that come with Rekindle, for `Pipeline.read`.

They are Python DataSources like any other, and are sent to executors by value: those need pyarrow, not Rekindle.
"""
