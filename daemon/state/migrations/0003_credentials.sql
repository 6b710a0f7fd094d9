-- Credentials. Secrets are here only sealed: base64 of AES-256-GCM under a data key of their own, which lies beside them
-- wrapped under the root key that `root_key` names.

-- `id` is of this credential alone, also where one of the same name was there before. `version` counts its secrets,
-- `revision` is the number of the last change by a person. `document` is bound into the ciphertexts as it stands.
CREATE TABLE credentials (
    organization  TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    id            TEXT   NOT NULL,
    revision      BIGINT NOT NULL,
    version       BIGINT NOT NULL,
    document      TEXT   NOT NULL,
    state         TEXT   NOT NULL,
    root_key      TEXT   NOT NULL,
    wrapped_key   TEXT   NOT NULL,
    sealed_secret TEXT   NOT NULL,
    expires_ms    BIGINT,
    refresh_ms    BIGINT,
    created_ms    BIGINT NOT NULL,
    changed_ms    BIGINT NOT NULL,
    last_used_ms  BIGINT,
    PRIMARY KEY (organization, name)
);

CREATE INDEX credentials_by_root_key ON credentials (root_key);

-- The root keys that something is wrapped under: the serving one and, while keys are rotated, the one before.
CREATE TABLE root_keys (
    id         TEXT     NOT NULL PRIMARY KEY,
    serving    SMALLINT NOT NULL,
    created_ms BIGINT   NOT NULL
);

-- While keys are rotated each of the two opens the other, so that whichever a start finds is enough.
CREATE TABLE root_key_wraps (
    id      TEXT NOT NULL,
    under   TEXT NOT NULL,
    wrapped TEXT NOT NULL,
    PRIMARY KEY (id, under)
);
