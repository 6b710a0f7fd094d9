//! The second wall: bounds of the process itself, for the case that a guest escapes from the sandbox.
//!
//! Landlock bounds files, TCP listeners and signals; seccomp bounds system calls; `no_new_privs` is set, and the process
//! leaves no core dump. An ordinary user may do all of it to its own process. `files` lists the paths that stay in reach,
//! `syscalls` the system calls that do not, and `inherited` keeps inherited descriptors from child processes.
//!
//! [`raise`] must run while the process has one thread: Landlock binds the calling thread, and those that it starts later.
//! [`forbid_dumps`] comes after the engine was made, which opens the page map of the process.

mod files;
mod inherited;
mod syscalls;

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use toolgate_api::error::{CallError, ErrorType};

use files::FileRules;
pub use files::{PROGRAM, packaged_folder};
use toolgate_state::config::{Config, Hardening};

/// The first ABI of Landlock that is used. The one before refuses every rename between two folders, which guests need.
const OLDEST_ABI: ABI = ABI::V2;

/// The newest ABI whose file rights are used.
const FILES_ABI: ABI = ABI::V5;

/// The newest ABI whose scopes are used.
const SCOPES_ABI: ABI = ABI::V6;

/// A part of the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The bounded resource.
    pub name: &'static str,
    /// The first version of Linux that has it.
    pub since: &'static str,
    /// Whether `hardening = "required"` demands it.
    pub is_essential: bool,
    needs: Need,
}

/// The feature of the kernel that a part needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// The file rights of an ABI of Landlock.
    Files(ABI),
    Listeners,
    Scopes,
    Seccomp,
}

/// The parts that depend on the kernel.
const PROTECTIONS: &[Protection] = &[
    protection("files", "5.19 with Landlock", true, Need::Files(OLDEST_ABI)),
    protection("system calls", "4.14 with seccomp", true, Need::Seccomp),
    protection("truncation of files", "6.2 with Landlock", false, Need::Files(ABI::V3)),
    protection("TCP listeners", "6.7 with Landlock", false, Need::Listeners),
    protection("commands to devices", "6.10 with Landlock", false, Need::Files(FILES_ABI)),
    protection("signals to other processes", "6.12 with Landlock", false, Need::Scopes),
];

const fn protection(name: &'static str, since: &'static str, is_essential: bool, needs: Need) -> Protection {
    Protection { name, since, is_essential, needs }
}

impl Need {
    fn is_met(self) -> bool {
        let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        match self {
            Self::Files(abi) => strict().handle_access(AccessFs::from_all(abi)).is_ok(),
            Self::Listeners => strict().handle_access(AccessNet::BindTcp).is_ok(),
            Self::Scopes => strict().scope(Scope::from_all(SCOPES_ABI)).is_ok(),
            Self::Seccomp => syscalls::are_available(),
        }
    }
}

/// The parts of the wall that a kernel has, and those that it lacks.
#[derive(Clone, Debug)]
pub struct WallSupport {
    /// Parts that can be in force.
    pub available: Vec<Protection>,
    /// Parts that cannot.
    pub missing: Vec<Protection>,
}

impl WallSupport {
    /// Asks the running kernel. Nothing is restricted.
    pub fn detect() -> Self {
        let (available, missing) = PROTECTIONS.iter().copied().partition(|part| part.needs.is_met());
        Self { available, missing }
    }

    /// The names of the missing parts that `hardening = "required"` demands.
    pub fn missing_essentials(&self) -> Vec<&'static str> {
        self.missing.iter().filter(|part| part.is_essential).map(|part| part.name).collect()
    }

    fn has(&self, need: Need) -> bool {
        self.available.iter().any(|part| part.needs == need)
    }
}

/// Restricts the process to what the settings need, and logs what is in force. `data` is the data folder.
///
/// With `hardening = "required"` a part that cannot be in force is an error, with `"best-effort"` it is a warning.
pub fn raise(config: &Config, data: &Path) -> Result<(), CallError> {
    // Also without a wall: no program that the daemon starts should get files of the program that started it.
    if let Err(error) = inherited::close_at_exec() {
        tracing::warn!(%error, "inherited descriptors stay open in the compile worker");
    }
    if config.hardening == Hardening::Off {
        tracing::warn!(
            "`hardening` is `off`: a guest that escapes from the sandbox has the rights of this user"
        );
        return Ok(());
    }
    let support = WallSupport::detect();
    let failures = restrict(&support, config, data);
    report(config.hardening, &support, &failures)
}

/// Restricts the process. Returns what failed although the kernel has it.
fn restrict(support: &WallSupport, config: &Config, data: &Path) -> Vec<String> {
    let mut failures = Vec::new();
    if support.has(Need::Files(OLDEST_ABI)) {
        let rules = FileRules::of(config, data);
        failures.extend(rules.gap().map(str::to_owned));
        let restricted = restrict_files(&rules);
        failures.extend(restricted.err().map(|error| format!("Landlock: {error}")));
    }
    let threads = threads();
    if threads > 1 {
        failures.push(format!("{} threads began before and have access to all files", threads - 1));
    }
    inherited::keep_temporary_files(data, threads);
    if support.has(Need::Seccomp) {
        failures.extend(syscalls::restrict_daemon().err().map(|error| format!("seccomp: {error}")));
    }
    failures
        .extend(rustix::thread::set_no_new_privs(true).err().map(|error| format!("no_new_privs: {error}")));
    failures
}

/// Returns an error if `hardening` is `required`, and the kernel or the settings allow no such wall. Nothing is restricted.
pub fn check(config: &Config) -> Result<(), CallError> {
    let gap = FileRules::of(config, &config.data).gap().map(str::to_owned);
    demand(config.hardening, &WallSupport::detect(), gap.as_slice())
}

fn demand(hardening: Hardening, support: &WallSupport, failures: &[String]) -> Result<(), CallError> {
    let missing = support.missing_essentials().into_iter().map(str::to_owned);
    let reasons: Vec<String> = missing.chain(failures.iter().cloned()).collect();
    if hardening != Hardening::Required || reasons.is_empty() {
        return Ok(());
    }
    Err(CallError::new(
        ErrorType::Unavailable,
        format!("`hardening` is `required`, and the process cannot bound: {}", reasons.join(", ")),
        "run `toolgate doctor`, enable Landlock and seccomp (Linux 5.19 or later, `lsm=landlock,…`), or set `hardening = \"best-effort\"`",
    ))
}

fn report(hardening: Hardening, support: &WallSupport, failures: &[String]) -> Result<(), CallError> {
    demand(hardening, support, failures)?;
    let names = |parts: &[Protection]| parts.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    if failures.is_empty() {
        tracing::info!(
            bounded = names(&support.available),
            "the process is hardened: no new privileges, no core dumps, and bounded access"
        );
    } else {
        tracing::warn!(failures = failures.join("; "), "the process is not hardened as it could be");
    }
    if !support.missing_essentials().is_empty() {
        tracing::warn!(
            missing = names(&support.missing),
            "this kernel cannot bound what the process may do: see `toolgate doctor`"
        );
    } else if !support.missing.is_empty() {
        tracing::info!(
            missing = names(&support.missing),
            "a newer kernel would bound more: see `toolgate doctor`"
        );
    }
    Ok(())
}

/// Landlock: the paths of `rules`, no new TCP listener, no signal to another process.
fn restrict_files(rules: &FileRules) -> Result<(), RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(OLDEST_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(FILES_ABI))?
        // The sockets of the settings were bound before.
        .handle_access(AccessNet::BindTcp)?
        .scope(scopes())?
        .create()?
        .add_rules(path_beneath_rules(&rules.read, read))?
        .add_rules(path_beneath_rules(&rules.execute, AccessFs::ReadFile | AccessFs::Execute))?
        .add_rules(path_beneath_rules(&rules.write, AccessFs::from_all(FILES_ABI) & !never))?
        .add_rules(path_beneath_rules(&rules.remove, AccessFs::RemoveFile))?
        .restrict_self()
        .map(drop)
}

/// A service manager with an abstract socket for notifications is outside of every scope.
fn scopes() -> landlock::BitFlags<Scope> {
    match std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| name.as_encoded_bytes().starts_with(b"@")) {
        true => Scope::Signal.into(),
        false => Scope::from_all(SCOPES_ABI),
    }
}

/// Keeps the memory of the process, with its secrets, from other processes of its user, and from core dumps.
pub fn forbid_dumps(hardening: Hardening) {
    if hardening == Hardening::Off {
        return;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let done =
        setrlimit(Resource::Core, none).and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable));
    if let Err(error) = done {
        tracing::warn!(%error, "a crash may write the memory of the daemon to a core dump");
    }
}

/// Restricts the compile worker to its three pipes: no file, no socket, no program, no signal to another process. The
/// kernel's missing parts are left out; the daemon logs them.
pub fn confine_worker() {
    let _ = confine_worker_files();
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = syscalls::restrict_worker();
}

fn confine_worker_files() -> Result<(), RulesetError> {
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(FILES_ABI))?;
    let ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    ruleset.scope(Scope::from_all(SCOPES_ABI))?.create()?.restrict_self().map(drop)
}

/// The number of threads of this process; without `/proc`, as if there were one more.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(2, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_and_system_calls_are_demanded() {
        let essential = PROTECTIONS.iter().filter(|part| part.is_essential).map(|part| part.name);
        assert_eq!(essential.collect::<Vec<_>>(), ["files", "system calls"]);
    }

    #[test]
    fn a_required_wall_is_refused_with_what_is_missing() {
        let (missing, available) = PROTECTIONS.iter().copied().partition(|part| part.name == "files");
        let support = WallSupport { available, missing };
        let error = report(Hardening::Required, &support, &[]).expect_err("no wall");
        assert!(error.message.ends_with("cannot bound: files"), "{}", error.message);
        report(Hardening::BestEffort, &support, &[]).expect("as far as it goes");
        let newer = PROTECTIONS.iter().copied().partition(|part| part.name == "TCP listeners");
        let support = WallSupport { missing: newer.0, available: newer.1 };
        report(Hardening::Required, &support, &[]).expect("the essentials");
        report(Hardening::Required, &support, &["seccomp: it failed".into()]).expect_err("a failure");
    }
}
