//! `wasi:http` server for `wasmtime serve`: parses a JSON request body and returns it.
#![cfg(target_family = "wasm")]

use serde::{Deserialize, Serialize};
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};
use wasip2::io::streams::StreamError;

wasip2::http::proxy::export!(Echo);

struct Echo;

#[derive(Serialize, Deserialize)]
struct Message {
    text: String,
    number: i64,
}

impl Guest for Echo {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let answered = body_of(&request).and_then(|body| serde_json::from_slice::<Message>(&body).ok());
        let response = OutgoingResponse::new(Fields::new());
        let _ = response.set_status_code(if answered.is_some() { 200 } else { 400 });
        let Ok(body) = response.body() else { return };
        ResponseOutparam::set(out, Ok(response));
        if let (Some(message), Ok(stream)) = (answered, body.write()) {
            let _ = stream.blocking_write_and_flush(&serde_json::to_vec(&message).unwrap_or_default());
        }
        let _ = OutgoingBody::finish(body, None);
    }
}

fn body_of(request: &IncomingRequest) -> Option<Vec<u8>> {
    let body = request.consume().ok()?;
    let stream = body.stream().ok()?;
    let mut bytes = Vec::new();
    loop {
        match stream.blocking_read(64 * 1024) {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(StreamError::Closed) => return Some(bytes),
            Err(_) => return None,
        }
    }
}
