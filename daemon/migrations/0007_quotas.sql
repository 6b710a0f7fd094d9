-- What was used of quotas in their present period. Periods are counted since 1970-01-01 UTC.
CREATE TABLE quota_use (
    key     TEXT   NOT NULL PRIMARY KEY,
    seconds BIGINT NOT NULL,
    period  BIGINT NOT NULL,
    used    BIGINT NOT NULL
);
