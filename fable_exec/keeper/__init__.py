"""The program that keeps supervised executions: `zygote` forks one `keeper` for each, which lives as long as its job.

It is a program of the library, not of the launcher: it decides by `lifecycle`, writes by `statefile`, and performs plans with
the launcher's steps in a child. `supervisor` starts it and speaks its wire: docs/reference/keeper.md.
"""
