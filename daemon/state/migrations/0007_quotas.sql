-- What was used of quotas in their present period: its length in units of time and its number since 1970-01-01 UTC.
CREATE TABLE quota_use (
    key          TEXT   NOT NULL PRIMARY KEY,
    organization TEXT   NOT NULL,
    length       BIGINT NOT NULL,
    period       BIGINT NOT NULL,
    used         BIGINT NOT NULL
);
