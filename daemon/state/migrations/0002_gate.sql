-- What the gate keeps: approvals, and the tools that kept failing in a session.

-- A JSON object: `namespace/tool` to how it failed, in words.
ALTER TABLE sessions ADD COLUMN broken_tools TEXT NOT NULL DEFAULT '{}';

-- `binding` is a hash over the tool, the plugin's digest, the rules that asked and the arguments: calls of one session
-- that have the same wait for the same approval. `arguments` and `constraints` are JSON text, kept as it came.
CREATE TABLE approvals (
    id             TEXT   NOT NULL PRIMARY KEY,
    organization   TEXT   NOT NULL,
    agent          TEXT   NOT NULL,
    session        TEXT   NOT NULL,
    call_id        TEXT   NOT NULL,
    user_name      TEXT,
    conversation   TEXT,
    channel        TEXT,
    asked_by       TEXT   NOT NULL,
    opened_by      TEXT   NOT NULL,
    tool           TEXT   NOT NULL,
    called         TEXT   NOT NULL,
    plugin_version TEXT   NOT NULL,
    plugin_digest  TEXT   NOT NULL,
    rules          TEXT   NOT NULL,
    arguments      TEXT   NOT NULL,
    binding        TEXT   NOT NULL,
    state          TEXT   NOT NULL,
    uses_left      BIGINT NOT NULL,
    constraints    TEXT,
    reason         TEXT,
    decided_by     TEXT,
    decided_ms     BIGINT,
    created_ms     BIGINT NOT NULL,
    expires_ms     BIGINT NOT NULL
);

CREATE UNIQUE INDEX approvals_pending ON approvals (session, binding) WHERE state = 'pending';
CREATE INDEX approvals_of_session ON approvals (session, tool);
CREATE INDEX approvals_of_organization ON approvals (organization, id);
CREATE INDEX approvals_by_end ON approvals (state, expires_ms);
