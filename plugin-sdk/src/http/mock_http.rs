//! Responses of a test to requests in native tests; see [`crate::testing::network`].
//!
//! Each thread has its own handler, since tests run concurrently.

use std::cell::RefCell;
use std::rc::Rc;

use super::Error;
use super::request::Outgoing;
use super::response::RawResponse;

/// A body is returned in pieces, as from a server.
const PIECE_BYTES: usize = 16 * 1024;

type Handler = Rc<RefCell<dyn FnMut(Outgoing) -> Result<RawResponse, Error>>>;

thread_local! {
    static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
}

/// Sets or removes the handler.
pub(crate) fn set_handler(handler: Option<Handler>) {
    HANDLER.set(handler);
}

pub(crate) async fn send(outgoing: Outgoing) -> Result<RawResponse, Error> {
    // Cloned, so that the cell is not borrowed while the handler runs: it may send requests itself.
    let handler = HANDLER.with_borrow(Clone::clone);
    match handler {
        Some(handler) => (handler.borrow_mut())(outgoing),
        None => Err(Error::InvalidRequest {
            why: "native tests have no network: set responses with `toolgate_sdk::testing::network`"
                .to_owned(),
        }),
    }
}

/// The body of a response.
pub(crate) struct Body {
    rest: Vec<u8>,
    /// The error after the last byte, in place of the end.
    failure: Option<Error>,
}

impl Body {
    pub(crate) fn new(bytes: Vec<u8>, failure: Option<Error>) -> Self {
        Self { rest: bytes, failure }
    }

    /// Returns the next piece, or none at the end.
    pub(crate) async fn read(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.rest.is_empty() {
            return self.failure.take().map_or(Ok(None), Err);
        }
        let later = self.rest.split_off(self.rest.len().min(PIECE_BYTES));
        Ok(Some(std::mem::replace(&mut self.rest, later)))
    }
}
