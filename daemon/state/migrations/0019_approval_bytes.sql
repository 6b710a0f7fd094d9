-- The bytes of an approval's arguments and rules, summed for an organization from the index alone.
ALTER TABLE approvals ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE approvals SET bytes = OCTET_LENGTH(arguments) + OCTET_LENGTH(rules) + OCTET_LENGTH(COALESCE(arguments_instead, ''));
DROP INDEX approvals_of_organization_by_state;
CREATE INDEX approvals_of_organization_by_state ON approvals (organization, state, id, bytes);
