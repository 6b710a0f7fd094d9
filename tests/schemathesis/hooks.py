"""Hooks of schemathesis: plugin files as request bodies, and additional checks of the document.

`SCHEMATHESIS_HOOKS` names this file; `openapi.rs` sets it and the other variables.
"""

import os
from pathlib import Path

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

# One request for each operation that succeeds on the resources which `openapi.rs` makes. They are sent first, in the order of the
# document: later requests are generated, and it is chance whether they find the state and the values that an operation needs.
#
# Path parameters, by operation and otherwise by name. Deletions use resources of their own.
_PATHS = {
    "org": "tenant",
    "agent": "bot",
    "id": os.environ["TOOLGATE_SESSION"],
    "call": "c1",
    "path": "a.txt",
    "namespace": "answer",
    "tool": "call_time_now",
    "name": "drive",
}
_APPROVAL = {"id": os.environ["TOOLGATE_APPROVAL"]}
_SHOP_TOOL = {"namespace": "shop"}
_OWNED = {"namespace": "owned"}
_KEPT = {"name": "kept"}
_SPARE = {"name": "spare"}
_OPERATION_PATHS = {
    "get_approval": _APPROVAL,
    "decide_approval": _APPROVAL,
    "put_organization": {"org": "made"},
    "delete_organization": {"org": "spare"},
    "delete_organization_data": {"org": "archive"},
    "delete_agent": {"agent": "spare"},
    "put_credential": {"name": "stripe"},
    "delete_credential": _SPARE,
    "delete_enabled_plugin": _SHOP_TOOL,
    "get_custom_tool": _SHOP_TOOL,
    "put_custom_tool": _SHOP_TOOL,
    "get_custom_tool_grant": _SHOP_TOOL,
    "put_custom_tool_grant": _SHOP_TOOL,
    "delete_custom_tool": {"namespace": "spare-shop"},
    "get_owned_plugin": _OWNED,
    "rollback_owned_plugin": _OWNED,
    "disable_owned_plugin": _OWNED,
    "enable_owned_plugin": _OWNED,
    "delete_owned_plugin": {"namespace": "spare-owned"},
    "delete_plugin": {"namespace": "spare"},
    "get_publisher_key": _KEPT,
    "put_publisher_key": _KEPT,
    "delete_publisher_key": _SPARE,
    "get_org_publisher_key": _KEPT,
    "put_org_publisher_key": _KEPT,
    "delete_org_publisher_key": _SPARE,
    "get_webhook": _KEPT,
    "put_webhook": _KEPT,
    "test_webhook": _KEPT,
    "delete_webhook": _SPARE,
    "end_session": {"id": os.environ["TOOLGATE_SPARE_SESSION"]},
    "post_client_result": {"call": "asked"},
    "delete_file": {"path": "spare.txt"},
    "revoke_token": {"id": os.environ["TOOLGATE_SPARE_TOKEN"]},
}
_BODIES = {
    "decide_approval": {"decision": "approve"},
    "rotate_root_key": {"key": os.environ["TOOLGATE_OTHER_ROOT_KEY"]},
    "unseal": {"key": os.environ["TOOLGATE_ROOT_KEY"]},
    "discover_authorization_server": {"url": "https://mcp.example.com/mcp"},
    "put_agent": {"enabled": ["*"]},
    "put_credential": {
        "provider": "stripe",
        "kind": "bearer",
        "secret": "sk_test",
        "bound_to": [{"host": "api.stripe.com"}],
    },
    "rotate_credential": {"secret": "sk_test"},
    "put_custom_tool": _SHOP,
    "import_custom_tool": {
        "namespace": "imported",
        "base_url": "https://shop.example",
        "document": _API,
        "dry_run": True,
    },
    "put_organization_policy": {"enabled": ["*"]},
    "put_organization_assertions": {"assertions": []},
    "put_platform_assertions": {"assertions": []},
    "put_platform_policy": {"channels": {"webchat": {}}, "owners_load_plugins": True},
    "put_publisher_key": _PUBLISHER_KEY,
    "put_org_publisher_key": _PUBLISHER_KEY,
    "put_webhook": {"url": "http://127.0.0.1:9/"},
    "put_plugin": _COMPONENT,
    "write_file": b"text",
    "open_session": {"agent": "tenant/bot"},
    "call_tools": {"calls": [{"id": "c2", "tool": "arithmetic/evaluate", "arguments": {"expression": "6*7"}}]},
    "post_client_result": {"status": "ok", "output": {"answer": "This one."}},
    "switch_session_tool": {"disabled": False},
    "select_session_tools": {"message": "what time is it"},
    "create_token": {"role": "orchestrator", "organization": "tenant", "agents": ["bot"], "addresses": ["10.1.0.0/16"]},
    "try_tool": {"organization": "tenant", "tool": "arithmetic/evaluate", "arguments": {"expression": "6*7"}},
}
_QUERIES = {"get_document_history": {"kind": "platform"}}
# These documents do not exist yet.
_NEW = {"put_organization", "put_credential"}
# No request can succeed here: there is no OAuth2 or OpenID provider, MCP server, registry or receiver of webhooks, no version waits for
# consent, and no file describes itself as a plugin of an organization. `tests/secrets`, `tests/mounts.rs`,
# `tests/plugin_files`, `tests/console` and `tests/gate` cover these. An event stream does not end.
_ELSEWHERE = {
    "finish_connecting",
    "begin_sign_in",
    "finish_sign_in",
    "approve_custom_tool",
    "refresh_custom_tool",
    "put_owned_plugin",
    "approve_owned_plugin",
    "approve_plugin",
    "decide_by_webhook",
    "follow_events",
    "follow_organization_events",
    "follow_session_events",
}


@schemathesis.hook
def after_load_schema(context, schema):
    """Send the request of each operation, and check that it succeeds and that its response is documented."""
    if "TOOLGATE_REACHES_ALL" not in os.environ:
        return
    failures = []
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.definition.raw["operationId"] not in _ELSEWHERE:
            try:
                _reach(operation)
            except (Exception, BaseExceptionGroup) as failure:  # A group has the checks that failed.
                failures.append(f"{operation.label}: {failure}")
    assert not failures, "\n".join(failures)


def _reach(operation):
    name = operation.definition.raw["operationId"]
    path = {part.name: _PATHS[part.name] for part in operation.path_parameters} | _OPERATION_PATHS.get(name, {})
    headers = {"Authorization": f"Bearer {os.environ['TOOLGATE_TOKEN']}"}
    if any(header.name == "If-Match" for header in operation.headers):
        headers["If-None-Match" if name in _NEW else "If-Match"] = "*"
    sent = {"path_parameters": path, "query": _QUERIES.get(name, {}), "headers": headers}
    media_types = list(operation.definition.raw.get("requestBody", {}).get("content", {}))
    if media_types:
        sent |= {"body": _BODIES.get(name, {}), "media_type": media_types[-1]}
    response = operation.Case(**sent).call_and_validate()
    assert response.status_code < 300, f"{response.status_code} {response.text}"


@schemathesis.hook
def before_call(context, case, kwargs):
    """Keep the organization of the run: some phases change a case after `filter_case` has seen it."""
    operation = case.operation.definition.raw.get("operationId")
    elsewhere = {"delete_organization": "spare", "delete_organization_data": "archive"}.get(operation)
    if elsewhere and (case.path_parameters or {}).get("org") == "tenant":
        case.path_parameters = {"org": elsewhere}


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
