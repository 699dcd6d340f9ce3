"""One module a figure: `measure(setting)` returns the rows it found."""
