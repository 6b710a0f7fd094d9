-- Messages between agents. Numbers grow within an inbox, so that reading one can mark those before it.
CREATE TABLE messages (
    organization TEXT NOT NULL,
    recipient TEXT NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL UNIQUE,
    sender TEXT NOT NULL,
    body TEXT NOT NULL,
    sent_ms INTEGER NOT NULL,
    read_ms INTEGER,
    PRIMARY KEY (organization, recipient, number)
);
CREATE INDEX messages_by_age ON messages (sent_ms);
