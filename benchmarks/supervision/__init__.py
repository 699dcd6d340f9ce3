"""Supervised executions: how long, how much, and how many at once (README.md beside this).

`benchmarks.figures.supervision` measures one after the other and is part of `make bench`; `python -m benchmarks.supervision`
holds hundreds at the same time, in a PID namespace that bounds them.
"""
