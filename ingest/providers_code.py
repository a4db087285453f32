"""The schemes of forges and of what is used beside them: code, builds, issues, pages, incidents."""

from __future__ import annotations

from dataclasses import replace

from ingest.providers_standards import STANDARD_WEBHOOKS
from ingest.scheme import MIB, Digest, Header, Items, Member, Scheme

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
    # The UUID is that of the action that caused events, and a new one when they are sent again; older instances have only that.
    delivery_id=(Header("idempotency-key"), Header("x-gitlab-event-uuid"), Digest()),
    repository="project.path_with_namespace",
    key="project.path_with_namespace",
    stored_headers=("x-gitlab-event", "x-gitlab-instance", "x-gitlab-webhook-uuid"),
)

GITLAB = replace(
    STANDARD_WEBHOOKS,
    name="gitlab",
    documentation="GitLab's page on webhooks: as Standard Webhooks say, where the instance has signing tokens; else `gitlab-token`.",
    confirmed=False,
    namespace="gitlab",
    event_type=GITLAB_TOKEN.event_type,
    repository=GITLAB_TOKEN.repository,
    key=GITLAB_TOKEN.key,
    stored_headers=GITLAB_TOKEN.stored_headers,
)

BITBUCKET = Scheme(
    name="bitbucket",
    documentation="Bitbucket Cloud's page on securing webhooks. Its header has the name of GitHub's for SHA-1; only `sha256=` is taken.",
    confirmed=True,
    signature=Header("x-hub-signature"),
    prefix="sha256=",
    namespace="bitbucket",
    event_type=(Header("x-event-key"),),
    delivery_id=(Header("x-request-uuid"), Header("x-request-id"), Digest()),
    repository="repository.full_name",
    key="repository.full_name",
    stored_headers=("x-hook-uuid", "x-attempt-number"),
)

JIRA = Scheme(
    name="jira",
    documentation="Atlassian's page on webhooks with a secret. Apps made with Connect send a JWT instead, which is not verified here.",
    confirmed=True,
    signature=Header("x-hub-signature"),
    prefix="sha256=",
    namespace="jira",
    event_type=(Member("webhookEvent"),),
    delivery_id=(Header("x-atlassian-webhook-identifier"), Digest()),
    repository="issue.key",
    key="issue.key",
    stored_headers=("x-atlassian-webhook-",),
)

LINEAR = Scheme(
    name="linear",
    documentation="Linear's page on webhooks. The time stands in the body and is signed with it.",
    signature=Header("linear-signature"),
    timestamp=Member("webhookTimestamp"),
    timestamp_unit="ms",
    tolerance_s=60,
    namespace="linear",
    event_type=(Member("type"),),
    action="action",
    delivery_id=(Header("linear-delivery"), Digest()),
    repository="data.id",
    key="data.id",
    stored_headers=("linear-event",),
    answered=200,
)

PAGERDUTY = Scheme(
    name="pagerduty",
    documentation="The tests of go-pagerduty. A 4xx drops an event for good, and three of them stop the subscription for a day.",
    confirmed=True,
    signature=Header("x-pagerduty-signature"),
    items=Items(separator=",", wanted="v1"),
    namespace="pagerduty",
    event_type=(Member("event.event_type"),),
    delivery_id=(Header("x-webhook-id"), Member("event.id"), Digest()),
    repository="event.data.id",
    key="event.data.id",
    stored_headers=("x-webhook-subscription",),
)

CIRCLECI = Scheme(
    name="circleci",
    documentation="CircleCI's page on outbound webhooks. Only `v1` is looked at, the one version that there is.",
    confirmed=True,
    signature=Header("circleci-signature"),
    items=Items(separator=",", wanted="v1"),
    namespace="circleci",
    event_type=(Header("circleci-event-type"), Member("type")),
    delivery_id=(Member("id"), Digest()),
    repository="project.slug",
    key="pipeline.id",
)

NOTION = Scheme(
    name="notion",
    documentation="Notion's page on webhooks. Keyed with the `verification_token` that its first request has in its body.",
    confirmed=True,
    signature=Header("x-notion-signature"),
    prefix="sha256=",
    namespace="notion",
    event_type=(Member("type"),),
    delivery_id=(Member("id"), Digest()),
    repository="entity.id",
    key="entity.id",
)

CODE = (GITHUB, GITLAB, GITLAB_TOKEN, BITBUCKET, JIRA, LINEAR, PAGERDUTY, CIRCLECI, NOTION)
