"""The sub-commands of `fable-exec supervise`. Each is one call of `Supervisor`, from flags to words and an exit status."""
