"""From POST to stream. Imports `schemas` and `infra` only."""
