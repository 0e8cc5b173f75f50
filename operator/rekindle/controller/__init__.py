"""The operator: thin Kopf handlers and watches over pure decisions, in one process that holds a Lease."""
