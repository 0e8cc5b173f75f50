"""Sources and sinks that come with Rekindle, for `Pipeline.read` and `DataSourceSink`.

They are Python DataSources like any other, and are sent to executors by value: those need pyarrow, not Rekindle.
"""
