-- The share of the calls that a version on trial gets, and the reason that ended its trial.
ALTER TABLE plugin_versions ADD COLUMN canary_percent BIGINT;
ALTER TABLE plugin_versions ADD COLUMN canary_failure TEXT;
