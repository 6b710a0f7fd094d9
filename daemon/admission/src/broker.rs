//! The broker selects the tools that a model is shown for a message (G15).
//!
//! A model that is shown every tool pays for each with every message and chooses worse. The broker uses the operator's
//! intents, whose patterns match the message, and a ranking of the tools by the words of the message (BM25F). Recently
//! used tools, universal tools and those of `always_show` stay; if too few tools match, the whole list is shown.
//!
//! The broker limits the list that is shown, never the tools that may be called: the callable tools are an argument, and
//! the selection is a subset of them. It is a pure function without a model: the same query has the same result.
//!
//! Start with [`select()`]. [`BrokerIndex::build`] indexes a catalogue, once for each catalogue.

mod select;
mod rank;
mod query;
mod intents;
mod index;
mod lexicon;
mod synonyms;
mod words;
mod shape;

pub use index::BrokerIndex;
pub use intents::Intents;
pub use select::{SelectQuery, SelectReason, Selected, Selection, WordMatch, search, select};
