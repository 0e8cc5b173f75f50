"""What the Makefile and pytest run around the tests: tiers with budgets, rules with their tests."""
