//! The broker: narrows the tools that a model is shown to those that a message may need (G15).
//!
//! A model that is shown everything pays for each tool with every message and chooses worse. From the message come
//! two things: the organization's intents, whose patterns it holds, and a ranking of the tools by its words.
//! What was used lately, what is universal and what the organization always shows stays in; where intents and
//! ranking find too little, the whole list is shown.
//!
//! This is about what is shown, never about what is allowed: the tools that may be called are handed in, and
//! nothing else can come out. Everything is arithmetic on words, no model is asked, and the same question
//! has the same answer with the same reasons.
//!
//! Where to begin: [`select()`] has the order of things. [`Index::build`] reads the catalogue, once per revision.

mod index;
mod intents;
mod lexicon;
mod question;
mod rank;
mod select;
mod shape;
mod synonyms;
mod words;

pub use index::Index;
pub use intents::{Intent, Intents, Patterns};
pub use select::{Match, Question, Selection, Taken, Why, select};
