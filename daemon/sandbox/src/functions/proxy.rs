//! Handlers of HTTP requests (`wasi:http/proxy`): the function `handle` is the tool `request`, with a request as its arguments and the
//! response as its result.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, Instance, Resource};
use wasmtime_wasi_http::WasiHttpView as _;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::p2::types::{HostIncomingRequest, HostResponseOutparam};

use super::arguments::Mismatch;
use super::shape::{Integer, Shape};
use super::{Export, Function, FunctionKind, wrong_arguments};
use crate::contract::{Failure, Outcome};
use crate::functions::JsonTooLarge;
use crate::state::CallState;

/// Prefix of the interface that a handler exports.
const HANDLER: &str = "wasi:http/incoming-handler@0.2.";

/// The host of requests that name none.
const HOST: &str = "component";

type Handle = (Resource<HostIncomingRequest>, Resource<HostResponseOutparam>);

/// Whether this is the interface of a handler.
pub(super) fn is_handler(interface: &str) -> bool {
    interface.starts_with(HANDLER)
}

/// The tool of a handler.
pub(super) fn function(export: &Export) -> Function {
    let option = |shape| Shape::Option(Box::new(shape));
    let headers = || Shape::List(Box::new(Shape::Tuple(vec![Shape::String, Shape::String])));
    Function {
        index: export.index,
        interface: export.interface.clone(),
        name: "request".into(),
        parameters: vec![
            ("path".into(), Shape::String),
            ("method".into(), option(Shape::String)),
            ("headers".into(), option(headers())),
            ("body".into(), option(Shape::String)),
        ],
        result: Some(Shape::Record(vec![
            ("status".into(), Shape::Integer(Integer::U16)),
            ("headers".into(), headers()),
            ("body".into(), Shape::String),
        ])),
        parts: 16,
        kind: FunctionKind::Handler,
    }
}

/// Has a request handled. The body of the response is read while the guest writes it.
pub(super) async fn request(
    instance: &Instance,
    store: &mut Store<CallState>,
    index: ComponentExportIndex,
    arguments: &Value,
    result_bytes: usize,
) -> wasmtime::Result<Result<Outcome, Failure>> {
    let request = match read_request(arguments) {
        Ok(request) => request,
        Err(mismatch) => return Ok(Err(wrong_arguments(mismatch))),
    };
    let (sender, mut receiver) = oneshot::channel();
    let mut http = store.data_mut().http();
    let parameters = (http.new_incoming_request(Scheme::Http, request)?, http.new_response_outparam(sender)?);
    let function = instance.get_typed_func::<Handle, ()>(&mut *store, index)?;
    let mut handling = std::pin::pin!(function.call_async(&mut *store, parameters));
    let (response, has_ended) = tokio::select! {
        biased;
        response = &mut receiver => (response.ok(), false),
        ended = &mut handling => {
            ended?;
            (receiver.try_recv().ok(), true)
        }
    };
    let response = match response {
        Some(Ok(response)) => response,
        Some(Err(code)) => return Ok(Err(failure(format!("the component answers with an error: {code:?}")))),
        None => return Ok(Err(failure("the component sent no response".to_owned()))),
    };
    let reading = read_response(response, result_bytes);
    if has_ended {
        return reading.await;
    }
    let (ended, response) = tokio::join!(handling, reading);
    ended?;
    response
}

fn read_request(arguments: &Value) -> Result<Request<Full<Bytes>>, Mismatch> {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let method = arguments["method"].as_str().unwrap_or("GET");
    let mut request = Request::builder().method(method).uri(text("path"));
    let headers = arguments["headers"].as_array().into_iter().flatten();
    let headers = headers.filter_map(|pair| Some((pair.get(0)?.as_str()?, pair.get(1)?.as_str()?)));
    let mut has_host = false;
    for (name, value) in headers {
        has_host |= name.eq_ignore_ascii_case("host");
        request = request.header(name, value);
    }
    if !has_host {
        request = request.header(http::header::HOST, HOST);
    }
    let request = request.body(Full::new(text("body").into()));
    request.map_err(|error| Mismatch { pointer: String::new(), message: error.to_string() })
}

async fn read_response(
    response: Response<HyperOutgoingBody>,
    limit_bytes: usize,
) -> wasmtime::Result<Result<Outcome, Failure>> {
    let (head, body) = response.into_parts();
    let body = match Limited::new(body, limit_bytes).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<ErrorCode>() => {
            return Ok(Err(failure(format!("the response is cut: {error}"))));
        }
        Err(_) => return Err(JsonTooLarge.into()),
    };
    let headers: Vec<(&str, _)> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let body = String::from_utf8_lossy(&body);
    let response = json!({"status": head.status.as_u16(), "headers": headers, "body": body});
    Ok(Ok(Outcome::Output(response.to_string())))
}

fn failure(message: String) -> Failure {
    Failure { code: "TOOL_FAILED".to_owned(), message, retryable: false, details: None }
}
