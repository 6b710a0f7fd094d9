-- Earlier texts of documents, with the author of each: the id of a token, or an empty text for the daemon itself. The body is
-- NULL where the document was deleted. The newest entry of an existing document is the document in force.
CREATE TABLE document_history (
    revision   BIGINT NOT NULL PRIMARY KEY,
    kind       TEXT   NOT NULL,
    scope      TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    body       TEXT,
    author     TEXT   NOT NULL,
    written_ms BIGINT NOT NULL
);

CREATE INDEX history_of_document ON document_history (kind, scope, name, revision);

INSERT INTO document_history (revision, kind, scope, name, body, author, written_ms)
SELECT revision, kind, scope, name, body, '', updated_ms FROM docs WHERE kind <> 'mount';
