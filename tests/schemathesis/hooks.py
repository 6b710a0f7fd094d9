"""Hooks of schemathesis: plugin files as request bodies, and additional checks of the document.

`SCHEMATHESIS_HOOKS` names this file; `openapi.rs` sets it and the other variables.
"""

import copy
import os
import zlib
from pathlib import Path

import requests
import schemathesis
from hypothesis import strategies as st

PROBLEM = "application/problem+json"

# A valid plugin file, and invalid bytes.
_COMPONENT = Path(os.environ["TOOLGATE_COMPONENT"]).read_bytes()
schemathesis.openapi.media_type(
    "application/wasm",
    st.one_of(st.just(_COMPONENT), st.binary(max_size=64), st.just(b"\0asm\x0d\0\x01\0")),
)


_PUBLISHER_KEY = {
    "publisher": "acme",
    "public_key": "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
    "namespaces": ["crm"],
}
_SHOP = {
    "description": "A shop.",
    "base_url": "https://shop.example",
    "actions": [
        {"name": "list", "description": "Lists.", "method": "GET", "path": "/", "input_schema": {"type": "object"}}
    ],
}
_API = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {"/items": {"get": {"operationId": "items", "responses": {}}}},
}

# Requests that fit each other and the resources of the run, by operation: path parameters, body, and whether it names the
# resource that it replaces. A generator makes valid members, and hardly ever ones that fit: a token whose role has the
# organization and the agents that it needs and addresses in CIDR notation, a key of 32 bytes, a granted host, a whole definition.
_FITTING = {
    "create_token": (
        {},
        {"role": "orchestrator", "organization": "tenant", "agents": ["bot"], "addresses": ["10.1.0.0/16"]},
        False,
    ),
    "put_credential": (
        {"org": "tenant", "name": "stripe"},
        {"provider": "stripe", "kind": "bearer", "secret": "sk_test", "bound_to": [{"host": "api.stripe.com"}]},
        False,
    ),
    "put_custom_tool": ({"org": "tenant", "namespace": "shop"}, _SHOP, True),
    "import_custom_tool": (
        {"org": "tenant"},
        {"namespace": "imported", "base_url": "https://shop.example", "document": _API, "dry_run": True},
        False,
    ),
    "try_tool": (
        {},
        {"organization": "tenant", "tool": "arithmetic/evaluate", "arguments": {"expression": "6*7"}},
        False,
    ),
    "put_enabled_plugin": ({"org": "tenant", "namespace": "answer"}, {"config": {}}, True),
    "delete_enabled_plugin": ({"org": "tenant", "namespace": "shop"}, None, True),
    "delete_platform_assertions": ({}, None, True),
    "delete_organization_assertions": ({"org": "tenant"}, None, True),
    "get_publisher_key": ({"name": "kept"}, None, False),
    "put_publisher_key": ({"name": "kept"}, _PUBLISHER_KEY, True),
    "delete_publisher_key": ({"name": "spare"}, None, True),
    "get_org_publisher_key": ({"org": "tenant", "name": "kept"}, None, False),
    "put_org_publisher_key": ({"org": "tenant", "name": "kept"}, _PUBLISHER_KEY, True),
    "delete_org_publisher_key": ({"org": "tenant", "name": "spare"}, None, True),
    "get_webhook": ({"org": "tenant", "name": "kept"}, None, False),
    "put_webhook": ({"org": "tenant", "name": "kept"}, {"url": "http://127.0.0.1:9/"}, False),
    "delete_webhook": ({"org": "tenant", "name": "spare"}, None, False),
    "test_webhook": ({"org": "tenant", "name": "kept"}, None, False),
    "get_owned_plugin": ({"org": "tenant", "namespace": "owned"}, None, False),
    "delete_owned_plugin": ({"org": "tenant", "namespace": "spare-owned"}, None, False),
    "rollback_owned_plugin": ({"org": "tenant", "namespace": "owned"}, None, False),
    "disable_owned_plugin": ({"org": "tenant", "namespace": "owned"}, None, False),
    "enable_owned_plugin": ({"org": "tenant", "namespace": "owned"}, None, False),
}


# Documents that are made again before an operation that needs them, since the run deletes them.
_ASSERTIONS = {"assertions": []}
_MADE = {
    "get_platform_assertions": ("/v1/platform/policy/assertions", _ASSERTIONS),
    "delete_platform_assertions": ("/v1/platform/policy/assertions", _ASSERTIONS),
    "get_organization_assertions": ("/v1/orgs/tenant/policy/assertions", _ASSERTIONS),
    "delete_organization_assertions": ("/v1/orgs/tenant/policy/assertions", _ASSERTIONS),
    "delete_enabled_plugin": ("/v1/orgs/tenant/enabled/shop", {}),
}


def _make(path, body):
    headers = {"Authorization": f"Bearer {os.environ['TOOLGATE_TOKEN']}", "If-None-Match": "*"}
    requests.put(os.environ["TOOLGATE_URL"] + path, json=body, headers=headers, timeout=30)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Replace three of four valid requests of the operations above by the one that fits; the others stay as generated."""
    operation = case.operation.definition.raw.get("operationId")
    if operation in _MADE:
        _make(*_MADE[operation])
    # Some phases change a case after `filter_case` has seen it, and the run needs the resources of this organization.
    elsewhere = {"delete_organization": "spare", "delete_organization_data": "archive"}.get(operation)
    if elsewhere and (case.path_parameters or {}).get("org") == "tenant":
        case.path_parameters = {"org": elsewhere}
    fitting = _FITTING.get(operation)
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if not is_valid or zlib.crc32(repr((case.path_parameters, case.query, case.body)).encode()) % 4 == 0:
        return  # By its content, so that a repeated case is the same.
    (case.query or {}).pop("dry_run", None)  # A dry run makes no resource for the operations that follow.
    if fitting is None:
        return
    path, body, replaces = fitting
    if path:
        case.path_parameters = dict(path)
    if body is not None:
        case.body = copy.deepcopy(body)
    for name in [name for name in case.headers or {} if name.lower() in ("if-match", "if-none-match")]:
        del case.headers[name]
    if replaces:
        if case.headers is None:
            case.headers = {}
        case.headers["If-Match"] = "*"
    # A warning refuses a strict document, and no version of a generated name is kept.
    for name in ("strict", "version"):
        (case.query or {}).pop(name, None)


@schemathesis.hook
def filter_case(context, case):
    """Skip requests that would delete resources the run needs, and those of inferred links that are no links."""
    if "/" in str((case.path_parameters or {}).get("agent", "")).replace("%2F", "/"):
        return False  # A response names an agent as `ORG/AGENT`, which is no parameter of a path.
    if case.operation.definition.raw.get("operationId") == "revoke_token":
        return (case.path_parameters or {}).get("id") != os.environ["TOOLGATE_TOKEN_ID"]
    if case.operation.definition.raw.get("operationId") == "delete_organization":
        return (case.path_parameters or {}).get("org") != "tenant"
    if case.operation.definition.raw.get("operationId") == "end_session":
        return (case.path_parameters or {}).get("id") != os.environ["TOOLGATE_SESSION"]
    if case.operation.definition.raw.get("operationId") == "export_audit":
        # An export that is followed does not end.
        return str((case.query or {}).get("follow", "false")).lower() not in ("true", "1")
    return True


@schemathesis.check
def problem_has_a_documented_code(ctx, response, case):
    """Check that `error_type` is one of the response's `x-toolgate-error-types`."""
    media_type = (response.headers.get("content-type") or [""])[0]
    if response.status_code < 400 or not media_type.startswith(PROBLEM):
        return
    documented = case.operation.definition.raw["responses"].get(str(response.status_code))
    if documented is None:
        return  # Undocumented; `status_code_conformance` reports it.
    code = response.json()["error_type"]
    codes = documented.get("x-toolgate-error-types", [])
    assert code in codes, f"{code} is not among the codes of {response.status_code}: {codes}"


@schemathesis.check
def every_member_is_documented(ctx, response, case):
    """Check that the schema declares every member of a response."""
    documented = case.operation.definition.raw["responses"].get(str(response.status_code))
    media_type = (response.headers.get("content-type") or [""])[0].split(";")[0]
    content = (documented or {}).get("content", {}).get(media_type)
    if content is None or not media_type.endswith("json") or "schema" not in content:
        return
    unknown = list(_unknown(case.operation.schema.raw_schema, content["schema"], response.json(), ""))
    assert not unknown, f"the schema does not have {unknown}"


def _unknown(document, schema, value, place):
    """Yield JSON pointers to members that no alternative of the schema declares."""
    schema = _resolved(document, schema)
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _unknown(document, schema.get("items", {}), item, f"{place}/{at}")
    if not isinstance(value, dict):
        return
    alternatives = [schema, *schema.get("oneOf", []), *schema.get("anyOf", []), *schema.get("allOf", [])]
    members = {}
    for alternative in alternatives:
        members.update(_resolved(document, alternative).get("properties", {}))
    if not members:
        return  # Any object is valid.
    for name, member in value.items():
        if name not in members:
            yield f"{place}/{name}"
        else:
            yield from _unknown(document, members[name], member, f"{place}/{name}")


def _resolved(document, schema):
    while isinstance(schema, dict) and "$ref" in schema:
        part = document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            part = part[name.replace("~1", "/").replace("~0", "~")]
        schema = part
    return schema if isinstance(schema, dict) else {}


@schemathesis.check
class EveryOperationIsReached:
    """Check that every operation succeeded at least once, so that its response was checked."""

    def __init__(self):
        self.tried = set()
        self.reached = set()

    def after_response(self, ctx, response, case):
        self.tried.add(case.operation.label)
        if response.status_code < 300:
            self.reached.add(case.operation.label)

    def after_run(self, ctx):
        # No request can succeed here: there is no OAuth2 provider, MCP server, registry or receiver of webhooks, no version waits for
        # consent, and no generated file describes itself as a plugin of an organization. `tests/secrets`, `tests/mounts.rs`,
        # `tests/plugin_files` and `tests/gate` cover these.
        elsewhere = {
            "GET /v1/history",
            "GET /v1/oauth/callback",
            "POST /v1/orgs/{org}/tools/{namespace}/approve",
            "POST /v1/orgs/{org}/tools/{namespace}/refresh",
            "PUT /v1/orgs/{org}/plugins/{namespace}",
            "POST /v1/orgs/{org}/plugins/{namespace}/approve",
            "POST /v1/plugins/{namespace}/approve",
            "POST /v1/approvals/{id}/callback",
        }
        missed = sorted(self.tried - self.reached - elsewhere)
        if os.environ.get("TOOLGATE_REACHES_ALL") and missed:
            raise AssertionError(f"never succeeded: {', '.join(missed)}")
