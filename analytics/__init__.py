"""From stream to table; the only importer of pyspark. Imports `schemas` and `infra` only."""
