"""What local executors leave running after a timeout, and when they return: `make leaks`."""
