-- Lists of sessions, the newest first: of an organization, and of all.
CREATE INDEX sessions_by_creation ON sessions (created_ms, id);
CREATE INDEX sessions_of_organization_by_creation ON sessions (organization, created_ms, id);
