"""The job master: runs a job graph on a SparkSession. It lives in the driver."""
