//! Calls whose instructions `instructions.sh` counts in QEMU. One thread makes them, so that a count repeats.

use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_core::plugins::Registries;
use toolgate_http::connections::Connections;
use toolgate_http::listener::{ListenerSettings, connection};
use toolgate_http::{App, AppParts, BodyMemory, root_service};

use super::ARGUMENTS;
use super::local_dispatcher::LocalDispatcher;

/// Longer than any count takes.
const LONG: Duration = Duration::from_secs(3_600);

/// Makes `calls` calls of `echo`: by the dispatcher, or over HTTP on one connection, a pipe.
pub fn run(echo: &[u8], over_http: bool, calls: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let local = LocalDispatcher::new(echo).await;
        if over_http { http(&local, calls).await } else { local.calls(calls, 1).await }
    });
}

async fn http(local: &LocalDispatcher, calls: u64) {
    let session = local.open_session();
    let token = std::fs::read_to_string(local.folder().join("operator.token")).unwrap();
    let body = format!(r#"{{"calls":[{{"tool":"call_echo_echo","arguments":{ARGUMENTS}}}]}}"#);
    let request = format!(
        "POST /v1/sessions/{}/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        session.setup.id,
        token.trim(),
        body.len()
    );
    let settings = ListenerSettings {
        connections: 1,
        header_bytes: 32 * 1024,
        header_timeout: LONG,
        write_timeout: LONG,
        drain: LONG,
    };
    let table = Connections::new(settings.connections);
    let permit = table.admit(IpAddr::from([127, 0, 0, 1])).await.unwrap();
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let service = root_service(app(local));
    let serving = connection(server, permit, service, settings, CancellationToken::new());
    let asking = async move {
        let mut response = Vec::new();
        for _ in 0..calls {
            client.write_all(request.as_bytes()).await.unwrap();
            response.clear();
            // What is next is the end of a response.
            while !response.ends_with(b"\"next\":\"model\"}") {
                assert_ne!(client.read_buf(&mut response).await.unwrap(), 0);
            }
            assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
            assert!(response.windows(13).any(|text| text == br#""status":"ok""#));
        }
    };
    tokio::join!(serving, asking);
}

fn app(local: &LocalDispatcher) -> App {
    App::new(AppParts {
        access_tokens: None,
        person_sign_in: None,
        registries: Registries::default(),
        organization_registries: None,
        pages: toolgate_console::PAGES,
        stop: CancellationToken::new(),
        config: local.config().clone(),
        admin: local.admin().clone(),
        serving: AtomicBool::new(true),
        bodies: BodyMemory::new(u64::MAX, u64::MAX),
        background: TaskTracker::new(),
        openapi: std::sync::OnceLock::new(),
    })
}
