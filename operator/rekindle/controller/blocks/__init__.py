"""NodeBlocks (FLIP-224's blocklist on Kubernetes): which of them are in force, and how their nodes are marked."""
