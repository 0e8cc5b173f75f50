"""The measured programs, as they run in a driver; without Rekindle's library, so that any Spark image takes them."""
