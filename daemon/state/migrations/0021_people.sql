-- What people who sign in are called, by the ids that records have.
CREATE TABLE people (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    seen_ms INTEGER NOT NULL
);
