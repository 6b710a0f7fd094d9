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
        # Generated requests cannot succeed here: there is no OAuth2 provider, MCP server, registry or receiver of webhooks, no
        # version waits for consent, the platform lets no organization load plugins, and random credentials, keys and definitions
        # are not valid. `tests/secrets`, `tests/egress`, `tests/mounts.rs`, `tests/plugin_files` and `tests/gate` cover these; a token's
        # role, organization and agents seldom fit by chance, which `tests/http/tokens.rs` covers.
        elsewhere = {
            "GET /v1/history",
            "GET /v1/oauth/callback",
            "PUT /v1/orgs/{org}/credentials/{name}",
            "PUT /v1/orgs/{org}/tools/{namespace}",
            "POST /v1/orgs/{org}/tools/import",
            "POST /v1/orgs/{org}/tools/{namespace}/approve",
            "POST /v1/orgs/{org}/tools/{namespace}/refresh",
            "POST /v1/try",
            "PUT /v1/orgs/{org}/enabled/{namespace}",
            "DELETE /v1/orgs/{org}/enabled/{namespace}",
            "GET /v1/orgs/{org}/plugins/{namespace}",
            "PUT /v1/orgs/{org}/plugins/{namespace}",
            "DELETE /v1/orgs/{org}/plugins/{namespace}",
            "POST /v1/orgs/{org}/plugins/{namespace}/approve",
            "POST /v1/orgs/{org}/plugins/{namespace}/disable",
            "POST /v1/orgs/{org}/plugins/{namespace}/enable",
            "POST /v1/orgs/{org}/plugins/{namespace}/rollback",
            "POST /v1/plugins/{namespace}/approve",
            "DELETE /v1/orgs/{org}/policy/assertions",
            "DELETE /v1/platform/policy/assertions",
            "GET /v1/orgs/{org}/publisher-keys/{name}",
            "PUT /v1/orgs/{org}/publisher-keys/{name}",
            "DELETE /v1/orgs/{org}/publisher-keys/{name}",
            "GET /v1/platform/publisher-keys/{name}",
            "PUT /v1/platform/publisher-keys/{name}",
            "DELETE /v1/platform/publisher-keys/{name}",
            "GET /v1/orgs/{org}/webhooks/{name}",
            "PUT /v1/orgs/{org}/webhooks/{name}",
            "DELETE /v1/orgs/{org}/webhooks/{name}",
            "POST /v1/orgs/{org}/webhooks/{name}/test",
            "POST /v1/approvals/{id}/callback",
            "POST /v1/tokens",
        }
        missed = sorted(self.tried - self.reached - elsewhere)
        if os.environ.get("TOOLGATE_REACHES_ALL") and missed:
            raise AssertionError(f"never succeeded: {', '.join(missed)}")
