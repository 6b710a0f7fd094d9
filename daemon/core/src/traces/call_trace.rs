//! The trace of one call: its times while it runs, and its spans when it has ended.
//!
//! Names and attributes are those of OpenTelemetry's conventions for generative AI, and `toolgate.…` for our own.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status};
use parking_lot::Mutex;
use tokio::time::Instant;
use toolgate_api::text::escape_for_display;
use toolgate_sandbox::{FinishedCall, TraceContext};

use super::context::TraceParent;
use crate::call::CallOutcome;
use crate::metrics::Phase;
use crate::sessions::SessionSetup;

/// Longest name of a tool that does not exist, in characters.
const TOOL_CHARS: usize = 128;

/// The trace of a call.
pub enum CallTrace {
    /// The caller records nothing, so the call records nothing. Its upstreams are told so.
    Unsampled(Arc<TraceParent>),
    /// The call records its spans.
    Recorded(Box<Recording>),
}

/// The times of a call.
pub struct Recording {
    parent: Option<Arc<TraceParent>>,
    trace: u128,
    /// The id of the call's span.
    call: u64,
    /// The id of the span in which the guest runs, the parent of what upstreams record.
    run: u64,
    arrived: Instant,
    arrived_at: SystemTime,
    /// Phases with their beginnings. Locked for a push alone.
    phases: Mutex<Vec<(Phase, Instant, Duration)>>,
}

impl CallTrace {
    /// Begins the recording of a call, in the trace of its caller or in a new one.
    pub(super) fn record(parent: Option<Arc<TraceParent>>) -> Self {
        Self::Recorded(Box::new(Recording {
            trace: parent.as_ref().map_or_else(|| rand::random::<u128>().max(1), |parent| parent.trace),
            parent,
            call: rand::random::<u64>().max(1),
            run: rand::random::<u64>().max(1),
            arrived: Instant::now(),
            arrived_at: SystemTime::now(),
            phases: Mutex::default(),
        }))
    }

    /// Adds a phase that has ended.
    pub fn add_phase(&self, phase: Phase, began: Instant, duration: Duration) {
        if let Self::Recorded(recording) = self {
            let mut phases = recording.phases.lock();
            phases.push((phase, began, duration));
        }
    }

    /// Adds the phases of a run in the sandbox.
    pub fn add_run(&self, began: Instant, finished: &FinishedCall) {
        let (whole, instance) = (Duration::from_micros(finished.usage.duration_us), finished.instance);
        self.add_phase(Phase::Instance, began, instance);
        self.add_phase(Phase::Run, began + instance, whole.saturating_sub(instance));
    }

    /// The context for upstreams of the call.
    pub fn context(&self) -> TraceContext {
        let parent = match self {
            Self::Unsampled(parent) => Arc::clone(parent),
            Self::Recorded(recording) => Arc::new(TraceParent {
                trace: recording.trace,
                span: recording.run,
                is_sampled: true,
                state: recording.state(),
            }),
        };
        TraceContext { traceparent: parent.to_string(), tracestate: parent.state.clone() }
    }
}

impl Recording {
    fn state(&self) -> String {
        self.parent.as_ref().map(|parent| parent.state.clone()).unwrap_or_default()
    }

    /// Builds the spans: the call's, and its phases as children.
    pub(super) fn into_spans(self, setup: &SessionSetup, source: &str, outcome: &CallOutcome) -> Vec<Span> {
        let mut call = self.span(self.call, self.arrived, self.arrived.elapsed());
        let known = outcome.tool.as_ref().map(ToString::to_string);
        // Callers choose the names of unknown tools, so they are in no span's name.
        call.name =
            known.as_ref().map_or_else(|| "execute_tool".to_owned(), |tool| format!("execute_tool {tool}"));
        if let Some(parent) = &self.parent {
            call.parent_span_id = parent.span.to_be_bytes().into();
            call.flags |= SpanFlags::ContextIsRemoteMask as u32;
        }
        let error = outcome.error();
        call.status = error.map(|_| Status { code: StatusCode::Error.into(), message: String::new() });
        call.attributes = attributes([
            ("gen_ai.operation.name", Some("execute_tool".to_owned())),
            ("gen_ai.tool.name", known.or_else(|| Some(escape_for_display(&outcome.called, TOOL_CHARS)))),
            ("gen_ai.tool.call.id", Some(outcome.id.clone())),
            ("gen_ai.tool.type", Some("function".to_owned())),
            ("gen_ai.conversation.id", setup.conversation.clone()),
            ("error.type", error.map(|error| error.error_type.as_str().to_owned())),
            ("toolgate.organization", Some(setup.organization.to_string())),
            ("toolgate.agent", Some(setup.agent.to_string())),
            ("toolgate.session", Some(setup.id.clone())),
            ("toolgate.source", Some(source.to_owned())),
            ("toolgate.status", Some(outcome.status().as_str().to_owned())),
        ]);
        let phases = std::mem::take(&mut *self.phases.lock());
        let children = phases.into_iter().map(|(phase, began, duration)| {
            let id = if phase == Phase::Run { self.run } else { rand::random::<u64>().max(1) };
            let mut child = self.span(id, began, duration);
            child.name = phase.as_str().to_owned();
            child.parent_span_id = self.call.to_be_bytes().into();
            child
        });
        children.chain([call]).collect()
    }

    fn span(&self, id: u64, began: Instant, duration: Duration) -> Span {
        let since_arrival = began.saturating_duration_since(self.arrived);
        let start = self.arrived_at.duration_since(UNIX_EPOCH).unwrap_or_default() + since_arrival;
        Span {
            trace_id: self.trace.to_be_bytes().into(),
            span_id: id.to_be_bytes().into(),
            trace_state: self.state(),
            flags: 1 | SpanFlags::ContextHasIsRemoteMask as u32,
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: nanoseconds(start),
            end_time_unix_nano: nanoseconds(start + duration),
            ..Span::default()
        }
    }
}

/// Attributes that have a value.
pub(super) fn attributes<const N: usize>(pairs: [(&str, Option<String>); N]) -> Vec<KeyValue> {
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let attribute = |(key, value): (&str, String)| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(value)) }),
        ..KeyValue::default()
    };
    pairs.map(attribute).collect()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
