"""What the measurements of the operator stand on: processes, the cluster, applications."""
