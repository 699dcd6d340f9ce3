"""Attempts to break out of a confinement, each proved by an unconfined run, against this library and its peers."""
