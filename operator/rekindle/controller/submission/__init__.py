"""From a SparkApplication to the objects of one attempt; no JVM, no API calls: a spec goes in, objects come out."""
