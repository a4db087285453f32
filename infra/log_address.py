"""Owns what `log.url` may say: both clients of the log must understand all of it alike. Pure."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qs, quote, urlencode, urlsplit

EMBEDDED = "embedded"
SCHEMES = ("redis", "rediss", "unix")
CLUSTER = "+cluster"
SENTINEL = "+sentinel"
DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
SENTINEL_LOGIN = ("sentinel_username", "sentinel_password")
TLS_OPTIONS = ("ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname", "ssl_certfile", "ssl_keyfile")
CERTIFICATE_IS = ("none", "optional", "required")


def why_no_address(url: str) -> str:
    """The reason why no server can be reached by it, or an empty text; never shows the password that it may hold."""
    if url == EMBEDDED:
        return ""
    try:
        if is_sentinel(url):
            return _why_no_sentinels(url)
        return _why_no_cluster(url) if is_cluster(url) else _why_no_server(url)
    except ValueError as error:
        return f"it is no address: {error}"


def is_cluster(url: str) -> bool:
    """True when it names nodes of a cluster, `redis+cluster://` or `rediss+cluster://`."""
    return _is_kind(url, CLUSTER)


def is_sentinel(url: str) -> bool:
    """True when it names sentinels and a service that they watch, `redis+sentinel://` or `rediss+sentinel://`."""
    return _is_kind(url, SENTINEL)


def _is_kind(url: str, kind: str) -> bool:
    scheme, _, _ = url.partition("://")
    return scheme.endswith(kind) and scheme.removesuffix(kind) in ("redis", "rediss")


def seed_nodes(url: str) -> list[str]:
    """The nodes that a cluster's address names, each as `host:port`; any of them can tell where the others are."""
    return _with_ports(_several(url)[1], port=DEFAULT_PORT)


def node_address(url: str, *, node: str) -> str:
    """The address of one node, with the password and the options of its cluster's address."""
    parts, _, login = _several(url)
    return SplitResult(parts.scheme.removesuffix(CLUSTER), login + node, "/0", parts.query, "").geturl()


def _several(url: str) -> tuple[SplitResult, list[str], str]:
    """The parts of an address, the servers that it names, and the login before them with its `@`."""
    parts = urlsplit(url)
    login, at, nodes = parts.netloc.rpartition("@")
    return parts, nodes.split(","), login + at


def _with_ports(nodes: list[str], *, port: int) -> list[str]:
    return [node if urlsplit(f"//{node}").port is not None else f"{node.rstrip(':')}:{port}" for node in nodes]


def service_name(url: str) -> str:
    """What sentinels call the log's primary and its replicas."""
    return urlsplit(url).path.strip("/").partition("/")[0]


def sentinel_addresses(url: str) -> list[str]:
    """The address of each sentinel; sentinels have logins of their own, or none."""
    parts, nodes, _ = _several(url)
    options = parse_qs(parts.query, keep_blank_values=True)
    user, password = (quote(options.get(name, [""])[0], safe="") for name in SENTINEL_LOGIN)
    login = f"{user}:{password}@" if user or password else ""
    scheme, query = parts.scheme.removesuffix(SENTINEL), _without_login(options)
    return [SplitResult(scheme, login + node, "/0", query, "").geturl() for node in _with_ports(nodes, port=SENTINEL_PORT)]


def primary_address(url: str, *, node: str) -> str:
    """The address of the primary `host:port` that sentinels have named, with the login, database and options of their address."""
    parts, _, login = _several(url)
    database = parts.path.strip("/").partition("/")[2] or "0"
    query = _without_login(parse_qs(parts.query, keep_blank_values=True))
    return SplitResult(parts.scheme.removesuffix(SENTINEL), login + node, f"/{database}", query, "").geturl()


def _without_login(options: dict[str, list[str]]) -> str:
    return urlencode({name: values for name, values in options.items() if name not in SENTINEL_LOGIN}, doseq=True)


def _why_no_sentinels(url: str) -> str:
    parts = urlsplit(url)
    if not re.fullmatch(r"/[\w.-]+(/[0-9]*)?", parts.path):
        return "after the sentinels it needs the name of the service that they watch, and may have a database: /NAME or /NAME/0"
    if "db" in parse_qs(parts.query, keep_blank_values=True):
        return "its option db would have no effect; write the database after the name of the service, /NAME/0"
    primary = primary_address(url, node="primary:1")
    return next(filter(None, (_why_no_server(one) for one in (primary, *sentinel_addresses(url)))), "")


def _why_no_cluster(url: str) -> str:
    parts, nodes, _ = _several(url)
    databases = [parts.path.strip("/"), *parse_qs(parts.query, keep_blank_values=True).get("db", [])]
    wrong = [name for name in databases if name not in ("", "0")]
    if wrong:
        return f"it names the database {wrong[0]}, and a cluster has only the database 0"
    return next(filter(None, (_why_no_server(node_address(url, node=node)) for node in nodes)), "")


def _why_no_server(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port  # raises ValueError
    if parts.scheme not in SCHEMES:
        return (
            "it is neither `embedded` nor an address that begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"
        )
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
    if is_sentinel(url):
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{service_name(url)}"
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
