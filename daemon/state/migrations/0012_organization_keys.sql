-- The key that encrypts an organization's data in the audit log, itself encrypted under the daemon's key for data.
CREATE TABLE organization_keys (
    organization TEXT   NOT NULL PRIMARY KEY,
    id           TEXT   NOT NULL,
    wrapped      TEXT   NOT NULL,
    created_ms   BIGINT NOT NULL
);

-- Starts of the daemon: each numbers its policy revisions from another base.
INSERT INTO counters (name, value) VALUES ('starts', 0);
