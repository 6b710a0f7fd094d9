//! The resources that a call used: as the sandbox counts them, results show them and stored answers keep them.

use serde::{Deserialize, Serialize};

/// The resources that a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallUsage {
    /// Guest instructions, in wasmtime fuel units, with the charge for host calls.
    pub fuel: u64,
    /// Peak memory of the guest, all its memories together, in bytes.
    pub memory_bytes: u64,
    /// Time in the sandbox, in microseconds.
    pub duration_us: u64,
    /// Processor time of the guest, with the host calls that run on its thread, in microseconds.
    #[serde(default)]
    pub cpu_us: u64,
    /// Number of calls from the guest to host functions.
    pub host_calls: u64,
    /// Bytes sent and received over the network.
    pub egress_bytes: u64,
    /// Units that the tool declares as the cost of a call that ran.
    #[serde(default)]
    pub cost: u64,
    /// Size of the result as JSON text, in bytes.
    pub output_bytes: u64,
    /// Bytes written to the log, standard output and standard error.
    pub log_bytes: u64,
}
