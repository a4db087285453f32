"""Owns GitHub's example events: bodies of the size and shape that it sends, new ones for every number. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

REPOSITORIES = ("octo-org/hello", "octo-org/lake", "octo-org/docs", "octo-org/api")
LINKS = (
    "archive", "assignees", "blobs", "branches", "collaborators", "comments", "commits", "compare", "contents",
    "contributors", "deployments", "downloads", "events", "forks", "hooks", "issues", "keys", "labels", "languages",
    "merges", "milestones", "notifications", "pulls", "releases", "stargazers", "statuses", "subscribers", "tags", "teams", "trees",
)  # fmt: skip


def github_body(name: str, *, action: str, number: int) -> dict[str, Any]:
    repository = _repository(REPOSITORIES[number % len(REPOSITORIES)])
    shared = {"repository": repository, "organization": _organization(), "sender": _user("octocat", 583231)}
    acted = {"action": action} if action else {}
    if name == "push":
        return {**_push(repository, number=number), **shared}
    if name == "pull_request":
        return {**acted, "number": number, "pull_request": _pull_request(repository, number=number), **shared}
    if name == "ping":
        return {"zen": "Keep it logically awesome.", "hook_id": 30, "hook": {"type": "Repository", "events": ["push"]}, **shared}
    return {**acted, "number": number, **shared}


def _push(repository: dict[str, Any], *, number: int) -> dict[str, Any]:
    commits = [_commit(repository, text=f"{number}-{part}") for part in range(2)]
    return {
        "ref": "refs/heads/main",
        "before": _sha(f"{number - 1}"),
        "after": commits[-1]["id"],
        "created": False,
        "deleted": False,
        "forced": False,
        "base_ref": None,
        "compare": f"{repository['html_url']}/compare/{_sha(f'{number - 1}')[:12]}...{commits[-1]['id'][:12]}",
        "pusher": {"name": "octocat", "email": "octocat@example.com"},
        "commits": commits,
        "head_commit": commits[-1],
    }


def _commit(repository: dict[str, Any], *, text: str) -> dict[str, Any]:
    person = {"name": "Octo Cat", "email": "octocat@example.com", "username": "octocat"}
    return {
        "id": _sha(text),
        "tree_id": _sha(f"tree {text}"),
        "distinct": True,
        "message": f"Change {text}: say why, not only what — “quoted”, ünïcödé",
        "timestamp": "2026-01-15T09:30:00+01:00",
        "url": f"{repository['html_url']}/commit/{_sha(text)}",
        "author": person,
        "committer": person,
        "added": [],
        "removed": [],
        "modified": ["README.md", f"src/part_{text}.py"],
    }


def _pull_request(repository: dict[str, Any], *, number: int) -> dict[str, Any]:
    url = f"{repository['url']}/pulls/{number}"
    return {
        "url": url,
        "id": 1_000_000 + number,
        "html_url": f"{repository['html_url']}/pull/{number}",
        "number": number,
        "state": "open",
        "locked": False,
        "title": f"Change number {number}",
        "user": _user("octocat", 583231),
        "body": "What was seen, why this fix, what was left out.",
        "created_at": "2026-01-15T08:30:00Z",
        "updated_at": "2026-01-15T08:30:00Z",
        "merged_at": None,
        "draft": False,
        "head": {"label": f"octocat:change-{number}", "ref": f"change-{number}", "sha": _sha(f"head {number}"), "repo": repository},
        "base": {"label": "octo-org:main", "ref": "main", "sha": _sha(f"base {number}")},
        "commits": 1,
        "additions": 10,
        "deletions": 2,
        "changed_files": 1,
    }


def _repository(full_name: str) -> dict[str, Any]:
    owner, _, name = full_name.partition("/")
    url = f"https://api.github.example/repos/{full_name}"
    return {
        "id": int(_sha(full_name)[:7], 16),
        "name": name,
        "full_name": full_name,
        "private": False,
        "owner": _user(owner, 9919),
        "html_url": f"https://github.example/{full_name}",
        "description": "An example repository",
        "fork": False,
        "url": url,
        **{f"{link}_url": f"{url}/{link}{{/{link}_id}}" for link in LINKS},
        "default_branch": "main",
        "stargazers_count": 80,
        "open_issues_count": 3,
        "topics": ["webhooks", "streams"],
        "visibility": "public",
    }


def _organization() -> dict[str, Any]:
    return {"login": "octo-org", "id": 9919, "url": "https://api.github.example/orgs/octo-org", "description": ""}


def _user(login: str, number: int) -> dict[str, Any]:
    url = f"https://api.github.example/users/{login}"
    links = ("followers", "following", "gists", "starred", "subscriptions", "organizations", "repos", "events", "received_events")
    return {"login": login, "id": number, "url": url, **{f"{link}_url": f"{url}/{link}" for link in links}, "type": "User"}


def _sha(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
