"""What fable_exec costs, beside the raw limit and its peers: `make bench`, or `python -m benchmarks.run NAME`."""
