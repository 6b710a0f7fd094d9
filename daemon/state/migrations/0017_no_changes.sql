-- No query reads this log of changes, which grew with every write; `document_history` keeps the texts.
DROP TABLE changes;
