"""The only code that speaks to the log server."""
