"""The schemes of forges and of what is used beside them: code, issues, incidents."""

from __future__ import annotations

from ingest.scheme import MIB, Header, Member, Scheme

GITHUB = Scheme(
    name="github",
    documentation="GitHub's page on validating webhook deliveries. The older `X-Hub-Signature` is SHA-1, and is never looked at.",
    confirmed=True,
    signature=Header("x-hub-signature-256"),
    prefix="sha256=",
    namespace="github",
    event_type=(Header("x-github-event"),),
    action="action",
    delivery_id=(Header("x-github-delivery"),),
    repository="repository.full_name",
    key="repository.full_name",
    demands_json=True,
    form_field="payload",
    stored_headers=("x-github-",),
    max_body_bytes=25 * MIB,
)

GITLAB_TOKEN = Scheme(
    name="gitlab-token",
    documentation="GitLab's page on webhooks. The secret itself is shown with every request, and nothing is signed: prefer `gitlab`.",
    signature=Header("x-gitlab-token"),
    algorithm="token",
    namespace="gitlab",
    event_type=(Member("object_kind"), Member("event_name")),
    delivery_id=(Header("x-gitlab-event-uuid"),),
    repository="project.path_with_namespace",
    key="project.path_with_namespace",
    stored_headers=("x-gitlab-event", "x-gitlab-instance", "x-gitlab-webhook-uuid"),
)

CODE = (GITHUB, GITLAB_TOKEN)
