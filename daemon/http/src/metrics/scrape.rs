//! The answer to `GET /metrics`: in the text format of OpenMetrics for who names it, otherwise in the older one of Prometheus.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use toolgate_core::metrics::Metrics;
use toolgate_core::services::Services;
use toolgate_sandbox::{PoolUse, WASMTIME_VERSION};
use toolgate_state::clock::now_ms;
use toolgate_state::store::{ENDING_MS, StoreError};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The numbers of one scrape.
#[derive(Debug, Default)]
struct Scrape {
    calls: Arc<Metrics>,
    /// Single numbers, each with its name and meaning.
    gauges: Vec<(&'static str, &'static str, u64)>,
    counters: Vec<(&'static str, &'static str, u64)>,
    audit_sync_seconds: f64,
    cpu_seconds: f64,
}

/// Collects the metrics and writes them as text, with its media type, for a request with these fields.
pub(super) async fn scrape(
    services: &Services,
    headers: &HeaderMap,
) -> Result<(&'static str, String), StoreError> {
    let text = collect(services).await?;
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    Ok(match accepted.any(|value| value.contains("application/openmetrics-text")) {
        true => (OPENMETRICS, text),
        false => (PROMETHEUS, to_prometheus(&text)),
    })
}

/// The older format: a counter has the name of its samples, there is no type for information, no unit and no end.
fn to_prometheus(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(_), meaning) => help = meaning,
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (end, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                if let Some(help) = help.take() {
                    text += &format!("# HELP {name}{end} {help}\n");
                }
                text += &format!("# TYPE {name}{end} {kind}\n");
            }
            (Some("#"), ..) => {}
            _ => {
                text += line;
                text.push('\n');
            }
        }
    }
    text
}

/// Numbers of what a person must look after.
#[derive(Debug, Default)]
struct Upkeep {
    webhooks_failing: u64,
    credentials_expired: u64,
    credentials_ending: u64,
    tokens_ending: u64,
    certificate_end: u64,
    last_backup: u64,
    assertions_broken: u64,
    sessions: u64,
    compiling: u64,
    is_ready: bool,
    process: Process,
}

/// The process, as `/proc` shows it (proc(5)).
#[derive(Debug, Default)]
struct Process {
    resident_bytes: u64,
    open_files: u64,
    start_seconds: u64,
    cpu_seconds: f64,
}

impl Process {
    fn read() -> Self {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{file}")).unwrap_or_default();
        let number = |text: &str, at: usize| {
            text.split_whitespace().nth(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
        };
        // The name before the parenthesis may have spaces.
        let stat = read("self/stat");
        let stat = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        let booted = read("stat").lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
        Self {
            resident_bytes: number(&read("self/statm"), 1).saturating_mul(rustix::param::page_size() as u64),
            open_files: std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
            start_seconds: booted.unwrap_or(0u64) + number(stat, 19) / ticks,
            cpu_seconds: (number(stat, 11) + number(stat, 12)) as f64 / ticks as f64,
        }
    }
}

async fn upkeep(services: &Services) -> Result<Upkeep, StoreError> {
    let now = now_ms();
    let [webhooks_failing, credentials_expired, credentials_ending, tokens_ending] =
        services.store.operator_counts(now, now.saturating_add(ENDING_MS)).await?;
    let observed = &services.metrics.observed;
    Ok(Upkeep {
        webhooks_failing,
        credentials_expired,
        credentials_ending,
        tokens_ending,
        certificate_end: observed.certificate_end.load(Ordering::Relaxed),
        last_backup: observed.last_backup.load(Ordering::Relaxed),
        assertions_broken: observed.broken_assertions.load(Ordering::Relaxed),
        sessions: services.sessions.count() as u64,
        compiling: services.registry.snapshot().compiling().len() as u64,
        is_ready: observed.is_ready.load(Ordering::Relaxed),
        process: Process::read(),
    })
}

async fn collect(services: &Services) -> Result<String, StoreError> {
    let (store_bytes, pending) = (services.store.bytes().await?, services.store.pending_approvals().await?);
    let free_bytes = services.store.free_bytes().unwrap_or(0);
    let (queue, pool) = (services.queue.depth(), services.sandbox.pool_use());
    let audit = services.audit.counts();
    let (hits, misses) = services.plugins.compile_counts();
    let upkeep = upkeep(services).await?;
    Ok(Scrape {
        calls: Arc::clone(&services.metrics),
        gauges: gauges(queue, &pool, services.audit.lag(), pending, [store_bytes, free_bytes], &upkeep),
        cpu_seconds: upkeep.process.cpu_seconds,
        counters: counters(
            [audit.records, audit.bytes, audit.syncs],
            [hits, misses],
            services.traces.counts(),
            services.ledger.quotas().near_end(),
        ),
        audit_sync_seconds: audit.sync_time.as_secs_f64(),
    }
    .write())
}

fn gauges(
    (running, waiting): (usize, usize),
    pool: &PoolUse,
    audit_lag: u64,
    approvals: u64,
    [store_bytes, free_bytes]: [u64; 2],
    upkeep: &Upkeep,
) -> Vec<(&'static str, &'static str, u64)> {
    vec![
        ("toolgate_queue_running", "Calls that hold a slot of the sandbox", running as u64),
        ("toolgate_queue_waiting", "Calls that wait for a slot of the sandbox", waiting as u64),
        ("toolgate_instances_live", "Instances of components", pool.instances),
        ("toolgate_pool_memories", "Linear memories in use", pool.memories),
        ("toolgate_pool_stacks", "Stacks in use", pool.stacks),
        ("toolgate_pool_warm_memories", "Unused linear memories that are kept warm", pool.warm_memories),
        ("toolgate_approvals_waiting", "Approvals without a decision", approvals),
        ("toolgate_audit_lag_records", "Records of the audit log that are not on disk yet", audit_lag),
        ("toolgate_store_bytes", "Size of the SQL store", store_bytes),
        ("toolgate_disk_free_bytes", "Free space on the disk of the SQL store", free_bytes),
        (
            "toolgate_ready",
            "1 where `/readyz` answers 200, looked at every five seconds",
            upkeep.is_ready.into(),
        ),
        ("toolgate_plugins_compiling", "Built-in plugins that are being compiled", upkeep.compiling),
        ("toolgate_sessions_open", "Open sessions", upkeep.sessions),
        (
            "toolgate_webhooks_failing",
            "Webhooks with a delivery that failed and is tried again",
            upkeep.webhooks_failing,
        ),
        (
            "toolgate_credentials_expired",
            "Credentials that have expired and are not renewed",
            upkeep.credentials_expired,
        ),
        (
            "toolgate_credentials_ending",
            "Credentials that expire within a week and are not renewed",
            upkeep.credentials_ending,
        ),
        ("toolgate_tokens_ending", "Tokens that end within a week", upkeep.tokens_ending),
        ("toolgate_assertions_broken", "Assertions that do not hold", upkeep.assertions_broken),
        (
            "toolgate_certificate_end_seconds",
            "When the certificate of the listener ends, in seconds since 1970; 0 without TLS",
            upkeep.certificate_end,
        ),
        (
            "toolgate_last_backup_seconds",
            "When the last backup was taken, in seconds since 1970; 0 without one",
            upkeep.last_backup,
        ),
        ("process_resident_memory_bytes", "Resident memory of the process", upkeep.process.resident_bytes),
        ("process_open_fds", "Open files of the process", upkeep.process.open_files),
        (
            "process_start_time_seconds",
            "When the process started, in seconds since 1970",
            upkeep.process.start_seconds,
        ),
    ]
}

fn counters(
    audit: [u64; 3],
    cache: [u64; 2],
    (exported, dropped): (u64, u64),
    near_end: u64,
) -> Vec<(&'static str, &'static str, u64)> {
    let ([records, bytes, syncs], [hits, misses]) = (audit, cache);
    vec![
        ("toolgate_audit_records", "Records written to the audit log", records),
        ("toolgate_audit_bytes", "Bytes written to the audit log", bytes),
        ("toolgate_audit_syncs", "Syncs of the audit log", syncs),
        ("toolgate_compile_cache_hits", "Components loaded from compiled code in the cache", hits),
        ("toolgate_compile_cache_misses", "Components compiled", misses),
        (
            "toolgate_quota_near_end",
            "Calls that found nine tenths of a quota of calls or cost used",
            near_end,
        ),
        ("toolgate_trace_spans_exported", "Spans that the collector took", exported),
        (
            "toolgate_trace_spans_dropped",
            "Spans dropped: the queue was full, or the collector refused them",
            dropped,
        ),
    ]
}

impl Scrape {
    fn write(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }

    fn encode_calls(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let calls = &self.calls;
        let help = "Calls by outcome: a status or an error code";
        let mut metric = encoder.encode_descriptor("toolgate_calls", help, None, MetricType::Counter)?;
        for (outcome, number) in calls.calls().counts() {
            ConstCounter::new(number).encode(metric.encode_family(&[("outcome", outcome)])?)?;
        }
        let help = "Calls by outcome, of the organizations that the operator lists";
        let mut metric =
            encoder.encode_descriptor("toolgate_organization_calls", help, None, MetricType::Counter)?;
        for (name, counts) in calls.organizations().iter() {
            for (outcome, number) in counts.counts() {
                let labels = [("organization", name.as_str()), ("outcome", outcome)];
                ConstCounter::new(number).encode(metric.encode_family(&labels)?)?;
            }
        }
        let help = "Refusals by the layer that decided";
        let mut metric = encoder.encode_descriptor("toolgate_refusals", help, None, MetricType::Counter)?;
        for (layer, number) in calls.refusals() {
            ConstCounter::new(number).encode(metric.encode_family(&[("layer", layer.as_str())])?)?;
        }
        let help = "Requests that were refused for their credentials, by reason";
        let mut metric =
            encoder.encode_descriptor("toolgate_requests_refused", help, None, MetricType::Counter)?;
        for (reason, number) in calls.refused_requests() {
            ConstCounter::new(number).encode(metric.encode_family(&[("reason", reason)])?)?;
        }
        let help =
            "Requests to upstreams by class of status; `failed` without a response, `denied` by the gate";
        let mut metric =
            encoder.encode_descriptor("toolgate_egress_requests", help, None, MetricType::Counter)?;
        for (result, number) in calls.requests() {
            ConstCounter::new(number).encode(metric.encode_family(&[("result", result)])?)?;
        }
        Ok(())
    }

    fn encode_histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Duration of the phases of a call";
        let mut metric =
            encoder.encode_descriptor("toolgate_call_phase_seconds", help, None, MetricType::Histogram)?;
        for (phase, histogram) in self.calls.durations() {
            let (buckets, sum) = histogram.read(1e-6);
            let count = buckets.iter().map(|(_, count)| count).sum();
            let labels = [("phase", phase.as_str())];
            metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        let help = "Peak linear memory of a call";
        let mut metric =
            encoder.encode_descriptor("toolgate_call_memory_bytes", help, None, MetricType::Histogram)?;
        let (buckets, sum) = self.calls.memory_kib().read(1024.0);
        let count = buckets.iter().map(|(_, count)| count).sum();
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_calls(&mut encoder)?;
        self.encode_histograms(&mut encoder)?;
        let help = "Executed instructions of guests, with charges for host calls";
        let fuel = ("toolgate_fuel", help, self.calls.fuel());
        for (name, help, number) in self.counters.iter().chain([&fuel]) {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(*number).encode(metric)?;
        }
        for (name, help, seconds) in [
            ("toolgate_audit_sync_seconds", "Time spent in syncs of the audit log", self.audit_sync_seconds),
            ("process_cpu_seconds", "Processor time of the process", self.cpu_seconds),
        ] {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        for (name, help, number) in &self.gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::try_from(*number).unwrap_or(i64::MAX)).encode(metric)?;
        }
        let help = "Versions of the daemon and of wasmtime";
        let mut metric = encoder.encode_descriptor("toolgate_build", help, None, MetricType::Info)?;
        metric.encode_info(&[("version", env!("CARGO_PKG_VERSION")), ("wasmtime", WASMTIME_VERSION)])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A scrape without calls.
    fn text() -> String {
        Scrape {
            gauges: gauges((0, 0), &PoolUse::default(), 0, 0, [0, 0], &Upkeep::default()),
            counters: counters([0; 3], [0; 2], (0, 0), 0),
            ..Scrape::default()
        }
        .write()
    }

    fn families(text: &str) -> BTreeSet<String> {
        let helps = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        helps.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }

    #[test]
    fn o5_the_text_ends_as_openmetrics_demands_and_names_wasmtime() {
        let text = text();
        assert!(text.ends_with("# EOF\n"));
        let build = format!(
            "toolgate_build_info{{version=\"{}\",wasmtime=\"{WASMTIME_VERSION}\"}} 1",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&build), "{text}");
        let lock = include_str!("../../../../Cargo.lock").replace('\n', " ");
        assert!(lock.contains(&format!("name = \"wasmtime\" version = \"{WASMTIME_VERSION}\"")));
    }

    /// The list at the end of `docs/metrics.md`; `TOOLGATE_BLESS` writes it.
    #[test]
    fn o5_the_page_lists_the_metrics_that_exist() {
        const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
        const HEAD: &str = "\n## All metrics\n\n| metric | kind | meaning |\n|---|---|---|\n";
        let (mut rows, mut help) = (String::new(), String::new());
        for line in text().lines() {
            if let Some((_, text)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                text.clone_into(&mut help);
            }
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                let ending = match kind {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                rows += &format!("| `{name}{ending}` | {kind} | {help} |\n");
            }
        }
        let current = std::fs::read_to_string(PAGE).unwrap();
        let (before, _) = current.split_once(HEAD).expect("the heading of the list");
        let page = format!("{before}{HEAD}{rows}");
        if std::env::var_os("TOOLGATE_BLESS").is_some() {
            std::fs::write(PAGE, &page).unwrap();
        } else {
            assert!(current == page, "docs/metrics.md is out of date: run this test with TOOLGATE_BLESS=1");
        }
    }

    /// Dashboards go stale silently: each of their metrics must exist, and each metric must be on the dashboard.
    #[test]
    fn o5_the_dashboard_shows_the_metrics_that_exist() {
        let dashboard: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/grafana.json")).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words = expressions.iter().flat_map(|text| text.split(|letter| !is_of_name(letter)));
        let shown: BTreeSet<String> = words
            .filter(|word| ["toolgate_", "process_"].iter().any(|start| word.starts_with(start)))
            .map(|name| {
                let endings = ["_total", "_bucket", "_sum", "_count", "_info"];
                endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name).to_owned()
            })
            .collect();
        assert_eq!(shown, families(&text()));
    }
}
