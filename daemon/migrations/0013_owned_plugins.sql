-- The share of the calls that a version on trial gets, and the reason that ended its trial.
ALTER TABLE plugin_versions ADD COLUMN canary_percent BIGINT;
ALTER TABLE plugin_versions ADD COLUMN canary_failure TEXT;
-- The digest whose hints an organization confirmed for a plugin of its own.
ALTER TABLE plugins ADD COLUMN confirmed_hints TEXT;
