-- Who holds a plugin's namespace, also where no version of it can be loaded to be asked.
ALTER TABLE plugins ADD COLUMN publisher TEXT;
