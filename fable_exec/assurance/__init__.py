"""Checks that can fail: a model checker and causal graphs, each for itself, and models of this library's own rules.

`kripke` and `causal` know nothing of the library and are imported on their own; `model` puts the real rules before them.
"""
