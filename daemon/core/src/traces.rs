//! Traces of calls for OpenTelemetry, exported over OTLP (O5).
//!
//! The spans of a call are built when it ends, from the times that the metrics measure anyway. So without an endpoint, or for
//! a caller that is not sampled, a call makes no span, allocates nothing and pays a comparison; a layer of `tracing` would
//! visit every event of the log.

mod context;
mod call_trace;
mod export;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use http::{HeaderMap, HeaderName, HeaderValue};
use toolgate_sandbox::{HostClient, HostClientSettings};
use toolgate_state::config::{TracesSection, parse_endpoint};

pub use call_trace::CallTrace;
pub use context::TraceParent;
pub use export::{Exporter, ExporterTask};

use export::SpanQueue;

use crate::call::CallOutcome;
use crate::sessions::SessionSetup;

/// Makes traces of calls, if the operator configured a collector. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<Arc<Sampled>>);

#[derive(Debug)]
struct Sampled {
    /// The share of calls that are traced where the caller has no trace.
    sample: f64,
    queue: Arc<SpanQueue>,
}

/// A variable of the environment, read once at the start.
#[expect(clippy::disallowed_methods, reason = "the settings name the variable")]
fn read_variable(name: &str) -> Result<String, std::env::VarError> {
    std::env::var(name)
}

impl Traces {
    /// Traces by the settings, and the task that exports them.
    pub fn new(settings: &TracesSection) -> Result<(Self, Option<Exporter>)> {
        let Some(endpoint) = &settings.endpoint else { return Ok((Self::default(), None)) };
        let endpoint = parse_endpoint(endpoint).context("`traces.endpoint` is not a URL")?;
        let mut headers = HeaderMap::new();
        if let Some(file) = &settings.headers_file {
            add_headers(&mut headers, &read_headers(file)?).context("`traces.headers_file`")?;
        }
        if let Some(name) = &settings.headers_environment {
            let text =
                read_variable(name).with_context(|| format!("`traces.headers_environment`: `{name}`"))?;
            add_headers(&mut headers, &text.replace(',', "\n")).context("`traces.headers_environment`")?;
        }
        let client = HostClient::new(HostClientSettings {
            // The host is the operator's.
            allow_private: true,
            plain_http: endpoint.authority().map(ToString::to_string).into_iter().collect(),
            // The headers may have a credential.
            public_plain_http: headers.is_empty(),
            ca_file: settings.ca_file.clone(),
            ..HostClientSettings::default()
        })?;
        let (queue, exporter) = Exporter::new(client, endpoint, headers);
        Ok((Self(Some(Arc::new(Sampled { sample: settings.sample, queue }))), Some(exporter)))
    }

    /// Whether no call has a trace.
    pub fn are_off(&self) -> bool {
        self.0.is_none()
    }

    /// The trace of a caller, from the fields of its request. They are not read where calls have no traces.
    pub fn parent(&self, traceparent: Option<&str>, tracestate: Option<&str>) -> Option<Arc<TraceParent>> {
        self.0.as_ref()?;
        TraceParent::parse(traceparent?, tracestate.unwrap_or_default()).map(Arc::new)
    }

    /// Begins the trace of a call. The caller's flag decides, and without a caller's trace the share of the settings.
    pub fn begin(&self, parent: Option<&Arc<TraceParent>>) -> Option<CallTrace> {
        let sampled = self.0.as_ref()?;
        match parent {
            Some(parent) if !parent.is_sampled => Some(CallTrace::Unsampled(Arc::clone(parent))),
            None if rand::random::<f64>() >= sampled.sample => None,
            parent => Some(CallTrace::record(parent.cloned())),
        }
    }

    /// Ends the trace of a call, and queues its spans.
    pub fn end(&self, trace: Option<CallTrace>, setup: &SessionSetup, source: &str, outcome: &CallOutcome) {
        if let (Some(sampled), Some(CallTrace::Recorded(recording))) = (&self.0, trace) {
            sampled.queue.push(recording.into_spans(setup, source, outcome));
        }
    }

    /// Spans that the collector took, and spans that were dropped.
    pub fn counts(&self) -> (u64, u64) {
        self.0.as_ref().map(|sampled| sampled.queue.counts()).unwrap_or_default()
    }
}

fn read_headers(file: &Path) -> Result<String> {
    std::fs::read_to_string(file)
        .with_context(|| format!("`traces.headers_file`: `{}` cannot be read", file.display()))
}

/// Adds a header field a line, as `NAME=VALUE`. No error quotes a value, which may be a key.
fn add_headers(headers: &mut HeaderMap, text: &str) -> Result<()> {
    for (index, line) in text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
        let field = line.split_once('=').and_then(|(name, value)| {
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name.trim().parse::<HeaderName>().ok()?, value))
        });
        let Some((name, value)) = field else { bail!("field {} is not `NAME=VALUE`", index + 1) };
        headers.insert(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o5_an_endpoint_without_a_path_gets_the_path_of_otlp() {
        let parsed = |text| parse_endpoint(text).map(|uri| uri.to_string());
        for text in ["http://localhost:4318", "http://localhost:4318/"] {
            assert_eq!(parsed(text).as_deref(), Some("http://localhost:4318/v1/traces"));
        }
        let whole = "https://otlp.example.org/otlp/v1/traces";
        assert_eq!(parsed(whole).as_deref(), Some(whole));
        for text in ["localhost:4318", "ftp://localhost", "/v1/traces", "http://me:key@localhost"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn o5_the_fields_for_a_collector_are_read_and_no_error_has_a_value() {
        let mut headers = HeaderMap::new();
        add_headers(&mut headers, "api-key=abc=\n\n x-team = tools \n").expect("fields");
        assert_eq!(headers["api-key"], "abc=");
        assert_eq!(headers["x-team"], "tools");
        for text in ["secret", "a b=secret", "name=sec\u{1}ret"] {
            let error = add_headers(&mut headers, text).expect_err(text);
            assert!(!error.to_string().contains("sec"), "{error}");
        }
    }

    fn traces(sample: f64) -> Traces {
        let settings = TracesSection {
            endpoint: Some("http://127.0.0.1:1".to_owned()),
            sample,
            ..TracesSection::default()
        };
        Traces::new(&settings).expect("settings").0
    }

    #[test]
    fn o5_the_callers_flag_decides_before_the_share() {
        let header = |flag| format!("00-{}-{}-0{flag}", "a".repeat(32), "b".repeat(16));
        for (sample, flag, is_recorded) in
            [(0.0, Some(1), true), (1.0, Some(0), false), (1.0, None, true), (0.0, None, false)]
        {
            let traces = traces(sample);
            let parent = flag.and_then(|flag| traces.parent(Some(&header(flag)), None));
            let trace = traces.begin(parent.as_ref());
            assert_eq!(matches!(trace, Some(CallTrace::Recorded(_))), is_recorded, "{sample} {flag:?}");
            let told = trace.map(|trace| trace.context().traceparent);
            assert_eq!(told.is_some(), flag.is_some() || is_recorded);
            if let (Some(told), Some(flag)) = (told, flag) {
                assert!(told.contains(&"a".repeat(32)) && told.ends_with(&format!("0{flag}")), "{told}");
            }
        }
        assert!(Traces::default().begin(None).is_none());
    }
}
