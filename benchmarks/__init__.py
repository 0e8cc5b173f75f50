"""The figures: `make bench`, or `python benchmarks/run.py --help`. docs/benchmarks.md says how they are measured."""
