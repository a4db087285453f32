"""Owns what `log.url` may say: both clients of the log must understand all of it alike. Pure."""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qs, urlsplit

EMBEDDED = "embedded"
SCHEMES = ("redis", "rediss", "unix")
TLS_OPTIONS = ("ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname", "ssl_certfile", "ssl_keyfile")
CERTIFICATE_IS = ("none", "optional", "required")


def why_no_address(url: str) -> str:
    """The reason why no server can be reached by it, or an empty text; never shows the password that it may hold."""
    if url == EMBEDDED:
        return ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"it is no address: {error}"
    if parts.scheme not in SCHEMES:
        return "it is neither `embedded` nor an address that begins with redis://, rediss:// or unix://"
    if parts.scheme == "unix" and not parts.path:
        return "a unix:// address needs the path of a socket"
    if parts.scheme != "unix" and (not parts.hostname or port == 0):
        return "it names no host, or the port 0"
    if parts.username and not parts.password:
        return f"it names the user {parts.username} without a password, so nobody would be authenticated"
    return _why_wrong_database(parts) or _why_wrong_options(parts)


def shown(url: str) -> str:
    """The address for people: where the server is, without user, password and options."""
    if url == EMBEDDED:
        return url
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def _why_wrong_database(parts: SplitResult) -> str:
    named = [parts.path.strip("/")] if parts.scheme != "unix" else []
    named += parse_qs(parts.query, keep_blank_values=True).get("db", [])
    wrong = [name for name in named if name and not (name.isascii() and name.isdigit())]
    return f"the database {wrong[0]} is no number" if wrong else ""


def _why_wrong_options(parts: SplitResult) -> str:
    options = parse_qs(parts.query, keep_blank_values=True)
    known = ("db", *TLS_OPTIONS) if parts.scheme == "rediss" else ("db",)
    unknown = [name for name in options if name not in known]
    if unknown:
        return f"its option {unknown[0]} would have no effect; a {parts.scheme}:// address knows {', '.join(known)}"
    if options.get("ssl_cert_reqs", ["required"])[0] not in CERTIFICATE_IS:
        return f"its option ssl_cert_reqs is none of {', '.join(CERTIFICATE_IS)}"
    return ""
