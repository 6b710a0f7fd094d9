-- Whether what organizations had enabled before plugins needed their consent counts as accepted already: 0 until a start did it.
INSERT INTO counters (name, value) VALUES ('consents', 0);
