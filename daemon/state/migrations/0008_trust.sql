-- A quarantined version waits for consent and is none of those that `serving` of its plugin counts.
ALTER TABLE plugin_versions ADD COLUMN quarantined SMALLINT NOT NULL DEFAULT 0;
-- Whether the hints of the version count without its grant.
ALTER TABLE plugin_versions ADD COLUMN hints_confirmed SMALLINT NOT NULL DEFAULT 0;
-- The key that signed the version, and its publisher at that time.
ALTER TABLE plugin_versions ADD COLUMN signer_key TEXT;
ALTER TABLE plugin_versions ADD COLUMN signer_publisher TEXT;
