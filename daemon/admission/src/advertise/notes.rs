//! The changes of a schema, with their places.

/// Most changes that are named of a schema; the last one counts the others.
const CHANGES: usize = 32;

/// A difference between the advertised schema and the enforced one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// JSON pointer into the advertised schema; empty for its root.
    pub pointer: String,
    /// The change.
    pub change: String,
}

/// The changes so far, and the place that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    changes: Vec<SchemaChange>,
    unnamed: usize,
    place: String,
}

impl Notes {
    /// Runs `write` at a place inside the present one.
    pub(super) fn inside<T>(&mut self, steps: &[&str], write: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.place.len();
        for step in steps {
            self.place.push('/');
            match step.contains(['~', '/']) {
                true => self.place.push_str(&step.replace('~', "~0").replace('/', "~1")),
                false => self.place.push_str(step),
            }
        }
        let written = write(self);
        self.place.truncate(before);
        written
    }

    /// The present place.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Adds a change at the present place.
    pub(super) fn add(&mut self, change: impl Into<String>) {
        match self.changes.len() {
            CHANGES => self.unnamed += 1,
            _ => self.changes.push(SchemaChange { pointer: self.place.clone(), change: change.into() }),
        }
    }

    /// Adds a change before all others, which is named however many there are.
    pub(super) fn add_first(&mut self, pointer: String, change: String) {
        self.changes.insert(0, SchemaChange { pointer, change });
    }

    pub(super) fn into_changes(mut self) -> Vec<SchemaChange> {
        if self.unnamed > 0 {
            let change = format!("{} more changes", self.unnamed);
            self.changes.push(SchemaChange { pointer: String::new(), change });
        }
        self.changes
    }
}
