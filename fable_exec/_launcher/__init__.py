"""The program that runs commands: its own processes, standard library only, nothing of the library above it."""
