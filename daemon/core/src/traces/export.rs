//! Sends spans to a collector: OTLP over HTTP, as protobuf.
//!
//! The spans of calls wait in a bounded queue. When the collector does not take them, the newest are dropped and counted, so
//! that calls never wait and memory is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, Uri, header};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use toolgate_macros::boxed;
use toolgate_sandbox::{HostClient, HostClientError};

use super::call_trace::attributes;

/// Calls whose spans wait for the exporter: some seconds of a busy daemon, and a few megabytes.
const QUEUE_CALLS: usize = 2_048;
/// Spans of one request, as in OpenTelemetry's own exporters.
const BATCH_SPANS: usize = 512;
/// Longest time that spans wait for others to be sent with.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Pause after the first failure. It doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Time to send the last spans when the daemon stops.
const FLUSH_TIME: Duration = Duration::from_secs(5);

/// The spans of ended calls, on their way to the exporter.
#[derive(Debug)]
pub(super) struct SpanQueue {
    sender: mpsc::Sender<Vec<Span>>,
    exported: AtomicU64,
    dropped: AtomicU64,
}

/// The task that sends spans.
pub struct Exporter {
    queue: Arc<SpanQueue>,
    receiver: mpsc::Receiver<Vec<Span>>,
    client: HostClient,
    endpoint: Uri,
    headers: HeaderMap,
    batch: Vec<Span>,
    /// A failure is logged once, until a request succeeds again.
    is_failing: bool,
}

/// A running exporter.
pub struct ExporterTask {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

#[boxed]
impl ExporterTask {
    /// Sends the last spans, as long as the time for them allows.
    pub async fn stop(self) {
        self.stop.cancel();
        if self.task.await.is_err() {
            tracing::error!("the exporter of traces panicked");
        }
    }
}

/// Why the collector did not take spans.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(transparent)]
    NoResponse(#[from] HostClientError),
    #[error("the collector answered with status {0}")]
    Status(u16),
}

impl ExportError {
    /// Whether the same request may succeed later (OTLP specification, "Failures").
    fn is_retryable(&self) -> bool {
        matches!(self, Self::NoResponse(_) | Self::Status(429 | 502 | 503 | 504))
    }
}

impl SpanQueue {
    /// Queues the spans of a call, or drops them where the queue is full.
    pub(super) fn push(&self, spans: Vec<Span>) {
        if let Err(mpsc::error::TrySendError::Full(spans) | mpsc::error::TrySendError::Closed(spans)) =
            self.sender.try_send(spans)
        {
            add(&self.dropped, spans.len());
        }
    }

    /// Spans that the collector took, and spans that were dropped.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.exported.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

impl Exporter {
    /// An exporter to `endpoint`, and the queue of its spans.
    pub(super) fn new(client: HostClient, endpoint: Uri, mut headers: HeaderMap) -> (Arc<SpanQueue>, Self) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let (sender, receiver) = mpsc::channel(QUEUE_CALLS);
        let queue = SpanQueue { sender, exported: AtomicU64::new(0), dropped: AtomicU64::new(0) };
        let queue = Arc::new(queue);
        let exporter = Self {
            queue: Arc::clone(&queue),
            receiver,
            client,
            endpoint,
            headers,
            batch: Vec::new(),
            is_failing: false,
        };
        (queue, exporter)
    }

    /// Starts to send spans.
    pub fn start(self) -> ExporterTask {
        let stop = CancellationToken::new();
        ExporterTask { task: tokio::spawn(self.run(stop.clone())), stop }
    }

    /// Sends spans until `stop`, and then those that are left.
    async fn run(mut self, stop: CancellationToken) {
        while stop.run_until_cancelled(self.fill_batch()).await.is_some() {
            stop.run_until_cancelled(self.export()).await;
        }
        self.receiver.close();
        while let Ok(spans) = self.receiver.try_recv() {
            self.batch.extend(spans);
        }
        let flushed = timeout(FLUSH_TIME, self.flush()).await;
        if flushed.is_err() || !self.batch.is_empty() {
            tracing::warn!(spans = self.batch.len(), "the last spans of calls were not exported");
        }
    }

    /// Waits for spans, and then for others to send with them.
    async fn fill_batch(&mut self) {
        if self.batch.is_empty() {
            // The queue is not closed while this task has it.
            let Some(spans) = self.receiver.recv().await else { return };
            self.batch = spans;
        }
        let until = Instant::now() + BATCH_DELAY;
        while self.batch.len() < BATCH_SPANS
            && let Ok(Some(spans)) = timeout_at(until, self.receiver.recv()).await
        {
            self.batch.extend(spans);
        }
    }

    /// Sends the batch, again and again while the collector cannot be reached.
    async fn export(&mut self) {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = self.send(self.batch.len()).await {
            if !error.is_retryable() {
                self.drop_spans(self.batch.len());
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends what is left, once.
    async fn flush(&mut self) {
        while !self.batch.is_empty() {
            if self.send(self.batch.len().min(BATCH_SPANS)).await.is_err() {
                return;
            }
        }
    }

    /// Sends the first spans of the batch, and removes them if the collector took them.
    async fn send(&mut self, spans: usize) -> Result<(), ExportError> {
        let sent = self.request(spans).await;
        match &sent {
            Ok(rejected) => {
                self.batch.drain(..spans);
                let rejected = spans.min(usize::try_from(*rejected).unwrap_or_default());
                add(&self.queue.exported, spans - rejected);
                add(&self.queue.dropped, rejected);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(event = "traces_exported", "spans of calls are exported again");
                }
            }
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::warn!(event = "traces_failed", %error, endpoint = %self.endpoint, "spans of calls cannot be exported");
            }
            Err(_) => {}
        }
        sent.map(drop)
    }

    /// Returns the number of spans that the collector rejected.
    async fn request(&self, spans: usize) -> Result<i64, ExportError> {
        let mut request = Request::post(self.endpoint.clone()).body(encode(&self.batch[..spans]));
        if let Ok(request) = &mut request {
            *request.headers_mut() = self.headers.clone();
        }
        let request = request.map_err(|_| HostClientError::InvalidUrl)?;
        let response = self.client.send(request).await?;
        if !response.status().is_success() {
            return Err(ExportError::Status(response.status().as_u16()));
        }
        let answer = ExportTraceServiceResponse::decode(response.body().as_slice()).unwrap_or_default();
        Ok(answer.partial_success.map_or(0, |partial| partial.rejected_spans))
    }

    fn drop_spans(&mut self, spans: usize) {
        self.batch.drain(..spans);
        add(&self.queue.dropped, spans);
    }
}

/// Encodes an export request.
fn encode(spans: &[Span]) -> Vec<u8> {
    let version = || Some(env!("CARGO_PKG_VERSION").to_owned());
    let resource = Resource {
        attributes: attributes([
            ("service.name", Some("toolgate".to_owned())),
            ("service.version", version()),
        ]),
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "toolgate".to_owned(),
        version: version().unwrap_or_default(),
        ..InstrumentationScope::default()
    };
    let spans = ScopeSpans { scope: Some(scope), spans: spans.to_vec(), ..ScopeSpans::default() };
    let spans =
        ResourceSpans { resource: Some(resource), scope_spans: vec![spans], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![spans] }.encode_to_vec()
}
