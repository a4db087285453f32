"""How events travel and how a process runs. Imports `schemas` only, never a service."""
