//! Guest of the tests of components made for other hosts.

#![allow(unsafe_code, reason = "the generated bindings are unsafe")]
#![allow(clippy::disallowed_methods, reason = "a program reads its environment and ends")]

use std::io::{Read, Write as _};

use wasi::config::store;
use wasi::logging::logging::{Level, log};
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

wit_bindgen::generate!({ world: "other-host", path: "wit", generate_all });

struct OtherHost;

export!(OtherHost);

wasip2::http::proxy::export!(OtherHost);

impl Guest for OtherHost {
    fn setting(name: String) -> Result<Option<String>, String> {
        store::get(&name).map_err(|error| format!("{error:?}"))
    }

    fn settings() -> Vec<(String, String)> {
        let all = store::get_all().unwrap_or_default();
        log(Level::Critical, "settings", &format!("{} settings", all.len()));
        all
    }

    fn variable(name: String) -> Option<String> {
        std::env::var(name).ok()
    }

    fn init(_: String, _: Vec<String>, _: bool) -> Result<(), String> {
        Err("nobody calls this".to_owned())
    }
}

impl exports::wasi::cli::run::Guest for OtherHost {
    /// Prints its arguments and its input. The argument `fail` ends it with an error, `exit` with success in another way.
    fn run() -> Result<(), ()> {
        let args: Vec<String> = std::env::args().collect();
        let mut input = String::new();
        std::io::stdin().read_to_string(&mut input).map_err(drop)?;
        print!("{}|{input}", args.join(" "));
        // The runtime of a program does it at its end.
        std::io::stdout().flush().map_err(drop)?;
        match args.get(1).map(String::as_str) {
            Some("fail") => {
                eprintln!("there is no such file");
                Err(())
            }
            Some("exit") => std::process::exit(0),
            _ => Ok(()),
        }
    }
}

impl wasip2::exports::http::incoming_handler::Guest for OtherHost {
    /// Answers `/echo` with what it got, `/silent` not at all, and other paths with status 404.
    fn handle(request: IncomingRequest, response_out: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        if path == "/silent" {
            return;
        }
        let mut text = format!("{:?} {path} ", request.method());
        if let Ok(body) = request.consume()
            && let Ok(mut stream) = body.stream()
        {
            // A body that ends is an error of its stream.
            drop(stream.read_to_string(&mut text));
        }
        let headers = Fields::new();
        let _ = headers.append("x-answer", b"yes");
        let response = OutgoingResponse::new(headers);
        if path != "/echo" {
            let _ = response.set_status_code(404);
        }
        let Ok(body) = response.body() else { return };
        ResponseOutparam::set(response_out, Ok(response));
        if let Ok(mut out) = body.write() {
            drop(out.write_all(text.as_bytes()).and_then(|()| std::io::Write::flush(&mut out)));
        }
        drop(OutgoingBody::finish(body, None));
    }
}
