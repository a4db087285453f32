"""Owns what `log.url` may say: both clients of the log must understand all of it alike. Pure."""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qs, urlsplit

EMBEDDED = "embedded"
SCHEMES = ("redis", "rediss", "unix")
CLUSTER = "+cluster"
DEFAULT_PORT = 6379
TLS_OPTIONS = ("ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname", "ssl_certfile", "ssl_keyfile")
CERTIFICATE_IS = ("none", "optional", "required")


def why_no_address(url: str) -> str:
    """The reason why no server can be reached by it, or an empty text; never shows the password that it may hold."""
    if url == EMBEDDED:
        return ""
    try:
        return _why_no_cluster(url) if is_cluster(url) else _why_no_server(url)
    except ValueError as error:
        return f"it is no address: {error}"


def is_cluster(url: str) -> bool:
    """True when it names nodes of a cluster, `redis+cluster://` or `rediss+cluster://`."""
    scheme, _, _ = url.partition("://")
    return scheme.endswith(CLUSTER) and scheme.removesuffix(CLUSTER) in ("redis", "rediss")


def seed_nodes(url: str) -> list[str]:
    """The nodes that a cluster's address names, each as `host:port`; any of them can tell where the others are."""
    nodes = _cluster_parts(url)[1]
    return [node if urlsplit(f"//{node}").port else f"{node.rstrip(':')}:{DEFAULT_PORT}" for node in nodes]


def node_address(url: str, *, node: str) -> str:
    """The address of one node, with the password and the options of its cluster's address."""
    parts, _, login = _cluster_parts(url)
    return SplitResult(parts.scheme.removesuffix(CLUSTER), login + node, "/0", parts.query, "").geturl()


def _cluster_parts(url: str) -> tuple[SplitResult, list[str], str]:
    parts = urlsplit(url)
    login, at, nodes = parts.netloc.rpartition("@")
    return parts, nodes.split(","), login + at


def _why_no_cluster(url: str) -> str:
    parts, nodes, _ = _cluster_parts(url)
    databases = [parts.path.strip("/"), *parse_qs(parts.query, keep_blank_values=True).get("db", [])]
    wrong = [name for name in databases if name not in ("", "0")]
    if wrong:
        return f"it names the database {wrong[0]}, and a cluster has only the database 0"
    return next(filter(None, (_why_no_server(node_address(url, node=node)) for node in nodes)), "")


def _why_no_server(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port  # raises ValueError
    if parts.scheme not in SCHEMES:
        return "it is neither `embedded` nor an address that begins with redis://, rediss://, unix:// or redis+cluster://"
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
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


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
