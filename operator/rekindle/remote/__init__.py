"""The command line's side of a cluster: applications sent there, shown and deleted."""
