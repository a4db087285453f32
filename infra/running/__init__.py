"""How a process runs: command line, supervisor, servers and guards."""
