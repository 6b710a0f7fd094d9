-- The daemon's state: documents, tokens, sessions, plugins.
--
-- Written for SQLite and PostgreSQL alike: times are milliseconds since 1970 in
-- BIGINT, JSON is TEXT, flags are SMALLINT 0 or 1, and an empty text stands for
-- the platform where an organization may stand.

-- Numbers that are handed out one by one. The update of a row is what puts the
-- writers of documents in order, so that a reader of `changes` who has seen one
-- number never meets a lower one later.
CREATE TABLE counters (
    name  TEXT   NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
);

INSERT INTO counters (name, value) VALUES ('changes', 0);

-- `revision` is the number of the change that wrote the body, and so is never
-- used twice for one document, deleting and making it anew included.
CREATE TABLE docs (
    kind       TEXT   NOT NULL,
    scope      TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    body       TEXT   NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (kind, scope, name)
);

CREATE TABLE changes (
    seq        BIGINT   NOT NULL PRIMARY KEY,
    kind       TEXT     NOT NULL,
    scope      TEXT     NOT NULL,
    name       TEXT     NOT NULL,
    deleted    SMALLINT NOT NULL,
    changed_ms BIGINT   NOT NULL
);

-- `hash` is the SHA-256 of the secret in hexadecimal digits; the secret is nowhere.
CREATE TABLE tokens (
    id           TEXT   NOT NULL PRIMARY KEY,
    hash         TEXT   NOT NULL,
    role         TEXT   NOT NULL,
    organization TEXT,
    agents       TEXT,
    label        TEXT   NOT NULL,
    created_ms   BIGINT NOT NULL,
    revoked_ms   BIGINT
);

CREATE INDEX tokens_of_organization ON tokens (organization);

CREATE TABLE sessions (
    id             TEXT   NOT NULL PRIMARY KEY,
    organization   TEXT   NOT NULL,
    agent          TEXT   NOT NULL,
    user_name      TEXT,
    conversation   TEXT,
    channel        TEXT,
    opened_by      TEXT   NOT NULL,
    disabled_tools TEXT   NOT NULL,
    rounds         BIGINT NOT NULL,
    created_ms     BIGINT NOT NULL,
    last_used_ms   BIGINT NOT NULL,
    ended_ms       BIGINT
);

CREATE INDEX sessions_of_agent ON sessions (organization, agent);
CREATE INDEX sessions_by_end ON sessions (ended_ms, last_used_ms);

-- `serving` is the position of the version that serves; the component files lie
-- elsewhere, by digest.
CREATE TABLE plugins (
    owner     TEXT     NOT NULL,
    namespace TEXT     NOT NULL,
    serving   BIGINT   NOT NULL,
    disabled  SMALLINT NOT NULL,
    built_in  SMALLINT NOT NULL,
    PRIMARY KEY (owner, namespace)
);

-- The versions that are kept, oldest first.
CREATE TABLE plugin_versions (
    owner     TEXT   NOT NULL,
    namespace TEXT   NOT NULL,
    position  BIGINT NOT NULL,
    version   TEXT   NOT NULL,
    digest    TEXT   NOT NULL,
    loaded_ms BIGINT NOT NULL,
    PRIMARY KEY (owner, namespace, position)
);
