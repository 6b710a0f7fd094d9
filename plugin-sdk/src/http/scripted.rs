//! Answers requests in native tests, as a test says; see [`crate::testing::network`].
//!
//! Each thread has a network of its own, since tests run beside each other.

use std::cell::RefCell;
use std::rc::Rc;

use super::Error;
use super::request::Outgoing;
use super::response::Answer;

/// Content comes in pieces, as it does from a server.
const PIECE_BYTES: usize = 16 * 1024;

type Script = Rc<RefCell<dyn FnMut(Outgoing) -> Result<Answer, Error>>>;

thread_local! {
    static SCRIPT: RefCell<Option<Script>> = const { RefCell::new(None) };
}

/// Puts a script in the place of another, or takes it away; gives the one before.
pub(crate) fn put(script: Option<Script>) -> Option<Script> {
    SCRIPT.replace(script)
}

pub(crate) async fn send(outgoing: Outgoing) -> Result<Answer, Error> {
    // Out of the cell before it runs: a script may ask for something itself.
    let script = SCRIPT.with_borrow(Clone::clone);
    match script {
        Some(script) => (script.borrow_mut())(outgoing),
        None => Err(Error::InvalidRequest {
            why: "native tests reach no network: answer with `toolgate_sdk::testing::network`".to_owned(),
        }),
    }
}

/// The content of an answer.
pub(crate) struct Body {
    rest: Vec<u8>,
    /// What happens after the last byte, in place of the end.
    failure: Option<Error>,
}

impl Body {
    pub(crate) fn new(bytes: Vec<u8>, failure: Option<Error>) -> Self {
        Self { rest: bytes, failure }
    }

    /// The next piece, or none at the end.
    pub(crate) async fn read(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.rest.is_empty() {
            return self.failure.take().map_or(Ok(None), Err);
        }
        let later = self.rest.split_off(self.rest.len().min(PIECE_BYTES));
        Ok(Some(std::mem::replace(&mut self.rest, later)))
    }
}
