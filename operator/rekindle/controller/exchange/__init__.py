"""The exchange with the job masters of pipelines: they hear of blocked nodes, and ask for blocks."""
