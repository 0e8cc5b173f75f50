"""What a lost driver costs a pipeline: what its job master told last, and the plan for the next one (FLIP-1)."""
