-- When a token ends, from where it may be used, and when it was last used.
ALTER TABLE tokens ADD COLUMN expires_ms BIGINT;
ALTER TABLE tokens ADD COLUMN addresses TEXT;
ALTER TABLE tokens ADD COLUMN last_used_ms BIGINT;
