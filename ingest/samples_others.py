"""Owns the example bodies of the other providers: the members that their events are known by, with a number and fresh ids. Pure.

Type and delivery id are put in by `samples.py`, where the scheme's record says that they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Body = dict[str, Any]


def _gitlab(number: int, fresh: str) -> Body:
    project = {"id": 15, "name": "hello", "path_with_namespace": "octo-org/hello", "default_branch": "main"}
    return {
        "object_kind": "",
        "ref": "refs/heads/main",
        "after": fresh,
        "user_name": "Octo Cat",
        "project": project,
        "total_commits_count": number,
    }


def _bitbucket(number: int, fresh: str) -> Body:
    repository = {"full_name": "octo-org/hello", "uuid": f"{{{fresh}}}", "scm": "git"}
    return {
        "repository": repository,
        "actor": {"display_name": "Octo Cat"},
        "push": {"changes": [{"new": {"name": "main"}, "number": number}]},
    }


def _jira(number: int, fresh: str) -> Body:
    issue = {"id": fresh, "key": f"HOOK-{number}", "fields": {"summary": f"Change number {number}"}}
    return {"timestamp": 1_768_478_400_000, "webhookEvent": "", "issue": issue, "user": {"displayName": "Octo Cat"}}


def _linear(number: int, fresh: str) -> Body:
    data = {"id": fresh, "title": f"Change number {number}", "number": number}
    return {"action": "create", "type": "", "data": data, "organizationId": "octo-org", "webhookTimestamp": 0}


def _pagerduty(number: int, fresh: str) -> Body:
    data = {
        "id": f"P{fresh[:7].upper()}",
        "type": "incident",
        "number": number,
        "status": "triggered",
        "title": "A little bump in the road",
    }
    return {"event": {"id": fresh, "event_type": "", "resource_type": "incident", "occurred_at": "2026-01-15T12:00:00Z", "data": data}}


def _stripe(number: int, fresh: str) -> Body:
    charged = {"id": f"in_{fresh[:24]}", "object": "invoice", "amount_due": 100 * number, "currency": "eur", "status": "paid"}
    return {"id": "", "object": "event", "api_version": "2026-01-01", "livemode": False, "type": "", "data": {"object": charged}}


def _shopify(number: int, fresh: str) -> Body:
    return {
        "id": number,
        "admin_graphql_api_id": f"gid://shopify/Order/{number}",
        "name": f"#{number}",
        "token": fresh,
        "total_price": "10.00",
    }


def _paddle(number: int, fresh: str) -> Body:
    return {
        "event_id": "",
        "event_type": "",
        "occurred_at": "2026-01-15T12:00:00Z",
        "data": {"id": f"txn_{fresh}", "status": "paid", "number": number},
    }


def _square(number: int, fresh: str) -> Body:
    data = {"type": "payment", "id": fresh, "object": {"payment": {"amount_money": {"amount": number, "currency": "EUR"}}}}
    return {"merchant_id": "MLEFBHHSJGVHD", "type": "", "event_id": "", "created_at": "2026-01-15T12:00:00Z", "data": data}


def _hubspot(number: int, fresh: str) -> Body:
    return {"eventId": "", "subscriptionType": "", "portalId": 62515, "objectId": number, "attemptNumber": 0, "changeSource": fresh}


def _zendesk(number: int, fresh: str) -> Body:
    return {"account_id": 22129848, "id": fresh, "subject": f"zen:ticket:{number}", "type": "", "time": "2026-01-15T12:00:00Z", "event": {}}


def _intercom(number: int, fresh: str) -> Body:
    item = {"type": "conversation", "id": str(number)}
    return {
        "type": "notification_event",
        "id": "",
        "topic": "",
        "app_id": fresh[:8],
        "data": {"type": "notification_event_data", "item": item},
    }


def _typeform(number: int, fresh: str) -> Body:
    answered = {
        "form_id": "lT4Z3j",
        "token": fresh,
        "answers": [{"type": "number", "number": number, "field": {"id": "a", "type": "number"}}],
    }
    return {"event_id": "", "event_type": "", "form_response": answered}


def _slack(number: int, fresh: str) -> Body:
    event = {"type": "", "user": "U2CERLKJA", "text": f"message {number}", "channel": "C1", "client_msg_id": fresh}
    return {"type": "event_callback", "team_id": "T1DC2JH3J", "api_app_id": "A1", "event_id": "", "event": event}


def _twilio(number: int, fresh: str) -> Body:
    return {
        "AccountSid": "AC" + "0" * 32,
        "MessageSid": f"SM{fresh}",
        "MessageStatus": "",
        "To": "+15550100",
        "From": "+15550199",
        "Body": number,
    }


def _mailgun(number: int, fresh: str) -> Body:
    data = {
        "id": fresh,
        "event": "",
        "recipient": f"reader-{number}@example.com",
        "message": {"headers": {"message-id": f"{fresh}@example.com"}},
    }
    return {"signature": {"timestamp": "", "token": "", "signature": ""}, "event-data": data}


def _zoom(number: int, fresh: str) -> Body:
    meeting = {"id": str(number), "uuid": fresh, "topic": f"Meeting {number}", "host_id": "h1"}
    return {"event": "", "event_ts": 1_768_478_400_000, "payload": {"account_id": "a1", "object": meeting}}


def _meta(number: int, fresh: str) -> Body:
    change = {"field": "messages", "value": {"messages": [{"id": f"wamid.{fresh}", "type": "text", "text": {"body": f"message {number}"}}]}}
    return {"object": "", "entry": [{"id": "8856996819413533", "time": 1_768_478_400, "changes": [change]}]}


def _line(number: int, fresh: str) -> Body:
    message = {"type": "text", "id": str(number), "text": f"message {number}"}
    event = {"type": "", "mode": "active", "webhookEventId": "", "source": {"type": "user", "userId": f"U{fresh}"}, "message": message}
    return {"destination": "U8e742f61d673b39c7fff3cecb7536ef0", "events": [event]}


OTHERS: Mapping[str, Callable[[int, str], Body]] = MappingProxyType(
    {
        "gitlab": _gitlab,
        "bitbucket": _bitbucket,
        "jira": _jira,
        "linear": _linear,
        "pagerduty": _pagerduty,
        "stripe": _stripe,
        "shopify": _shopify,
        "paddle": _paddle,
        "square": _square,
        "hubspot": _hubspot,
        "zendesk": _zendesk,
        "intercom": _intercom,
        "typeform": _typeform,
        "slack": _slack,
        "twilio": _twilio,
        "mailgun": _mailgun,
        "zoom": _zoom,
        "meta": _meta,
        "line": _line,
    }
)
"""By the name of a scheme, or by its namespace where several schemes send the same events."""
