-- The user that a token of role `agent` acts for.
ALTER TABLE tokens ADD COLUMN acts_for TEXT;
