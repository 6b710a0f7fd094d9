-- Webhooks: where the approvals of an organization are announced (G18). The secret is sealed as one of a credential is,
-- with `document` bound into the ciphertext. `disabled` says why nothing is sent any more.
CREATE TABLE webhooks (
    organization  TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    id            TEXT   NOT NULL,
    version       BIGINT NOT NULL,
    document      TEXT   NOT NULL,
    root_key      TEXT   NOT NULL,
    wrapped_key   TEXT   NOT NULL,
    sealed_secret TEXT   NOT NULL,
    disabled      TEXT,
    created_ms    BIGINT NOT NULL,
    changed_ms    BIGINT NOT NULL,
    PRIMARY KEY (organization, name)
);

CREATE UNIQUE INDEX webhooks_by_id ON webhooks (id);
CREATE INDEX webhooks_by_root_key ON webhooks (root_key);

-- Announcements, sent until they are delivered. `webhook` is an id.
CREATE TABLE webhook_deliveries (
    id           TEXT   NOT NULL PRIMARY KEY,
    organization TEXT   NOT NULL,
    webhook      TEXT   NOT NULL,
    approval     TEXT   NOT NULL,
    event        TEXT   NOT NULL,
    state        TEXT   NOT NULL,
    attempts     BIGINT NOT NULL,
    next_ms      BIGINT NOT NULL,
    error        TEXT,
    created_ms   BIGINT NOT NULL,
    ended_ms     BIGINT
);

CREATE INDEX webhook_deliveries_due ON webhook_deliveries (state, next_ms);
CREATE INDEX webhook_deliveries_of_webhook ON webhook_deliveries (webhook, state, id);

-- Arguments that an approver gave in place of those that were shown, as JSON text.
ALTER TABLE approvals ADD COLUMN arguments_instead TEXT;

-- Tokens of links and callbacks. Each try has its own, and a decision ends them all, since an approval is decided once.
-- `hash` is the SHA-256 of a token in hexadecimal digits; the token is nowhere.
CREATE TABLE webhook_tokens (
    hash     TEXT NOT NULL PRIMARY KEY,
    delivery TEXT NOT NULL,
    kind     TEXT NOT NULL
);

CREATE INDEX webhook_tokens_of_delivery ON webhook_tokens (delivery);
