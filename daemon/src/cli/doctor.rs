//! `toolgate doctor`: whether this machine suits a daemon with these settings.

use std::fs;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use rustix::fs::StatVfs;
use rustix::process::{Resource, getrlimit};
use toolgate_cli::{Failure, Printer};
use toolgate_core::version::BuildInfo;
use toolgate_core::wall::{Protection, WallSupport};
use toolgate_sandbox::{PagemapScan, Sandbox, SandboxSettings};
use toolgate_state::config::{self, Config, Hardening};

use super::config_check::{CHECKED, finding_of};
use super::finding::{self, Finding};
use super::serve;
use crate::serve::{OpenFiles, open_files, open_files_message};

const EXAMPLES: &str = "\
Examples:
  toolgate doctor
  toolgate doctor --config /etc/toolgate/toolgate.toml --data /var/lib/toolgate
  toolgate doctor --json";

/// Memory that a daemon takes with the compilation of a large plugin.
const MEMORY_BYTES: u64 = 512 << 20;

/// Free space below which a disk is nearly full.
const DISK_BYTES: u64 = 512 << 20;

/// Space for compiled code and the store of a new data folder.
const CODE_BYTES: u64 = 64 << 20;

/// Free inodes below which a disk is nearly full: a workspace has up to 10,000 files.
const INODES: u64 = 10_000;

/// Written and synced blocks whose median is the speed of the disk.
const SYNCS: usize = 16;
const BLOCK_BYTES: usize = 4096;

/// A slower sync is felt by every call, which waits for one.
const SLOW_SYNC: Duration = Duration::from_millis(20);

const GIB: f64 = (1_u64 << 30) as f64;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DoctorOptions {
    /// The settings file (TOML) of the daemon; without one, the defaults count
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder, as for `serve`
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Looks at the machine, and writes nothing but a temporary file on the disk of the data folder.
pub(super) async fn run(options: DoctorOptions, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let overrides = serve::OverrideOptions { data: options.data, ..serve::OverrideOptions::default() };
    let config = serve::load(options.config.as_deref(), &overrides)?;
    let disk = existing(&config.data);
    let mut findings = vec![
        Finding::ok("version", BuildInfo::current().to_string()),
        check_clock(SystemTime::now()),
        check_hardening(config.hardening, &WallSupport::detect()),
        check_sandbox(&config),
        check_memory(),
        check_open_files(&config),
        check_space(&config, &disk),
    ];
    findings.extend(check_speed(&disk));
    let faults = crate::serve::check(&config).await;
    if faults.is_empty() {
        findings.push(Finding::ok("settings", CHECKED));
    }
    findings.extend(faults.into_iter().map(finding_of));
    match finding::print(&findings, printer)? {
        false => Ok(()),
        true => Err(Failure::new(
            "this machine does not suit the daemon",
            "fix the errors above; each line says how",
        )),
    }
}

/// The data folder, or the folder in which it will be created.
fn existing(data: &Path) -> PathBuf {
    let named = |folder: &&Path| !folder.as_os_str().is_empty();
    let found = data.ancestors().filter(named).find(|folder| folder.is_dir());
    found.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

fn check_clock(now: SystemTime) -> Finding {
    const NAME: &str = "clock";
    const HINT: &str = "let a service set the clock (`timedatectl set-ntp true`): tokens, certificates and audit records need it";
    let built = std::env::current_exe().and_then(fs::metadata).and_then(|program| program.modified());
    if built.is_ok_and(|built| now < built) {
        return Finding::error(NAME, "the time is before that of this program", HINT);
    }
    let service = Path::new("/run/systemd/timesync");
    if service.is_dir() && !service.join("synchronized").exists() {
        return Finding::warning(NAME, "it is not synchronized", HINT);
    }
    Finding::ok(NAME, "the time is plausible")
}

fn check_hardening(hardening: Hardening, support: &WallSupport) -> Finding {
    const NAME: &str = "hardening";
    let describe = |part: &Protection| format!("{} (Linux {})", part.name, part.since);
    let missing = support.missing.iter().map(describe).collect::<Vec<_>>().join(", ");
    let available = support.available.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    if hardening == Hardening::Off {
        return Finding::warning(
            NAME,
            "it is off: a guest that escapes from the sandbox has the rights of the daemon's user",
            "set `hardening = \"best-effort\"` or `\"required\"`",
        );
    }
    if !support.missing_essentials().is_empty() {
        let message = format!("the kernel cannot bound {missing}");
        let hint = "enable Landlock (`lsm=landlock,…` on the kernel's command line) and seccomp, or take a newer kernel";
        // With `required` the settings have the error.
        return Finding::warning(NAME, message, hint);
    }
    match missing.is_empty() {
        true => Finding::ok(NAME, format!("bounded: {available}")),
        false => Finding::ok(NAME, format!("bounded: {available}; a newer kernel would add {missing}")),
    }
}

/// Makes the engine as a daemon does: it needs address space and the features of the processor.
fn check_sandbox(config: &Config) -> Finding {
    const NAME: &str = "sandbox";
    let instances = config.sandbox.instances;
    let pagemap_scan = match config.sandbox.pagemap_scan {
        config::PagemapScan::Auto => PagemapScan::Auto,
        config::PagemapScan::Off => PagemapScan::Off,
    };
    match Sandbox::new(&SandboxSettings { instances, pagemap_scan }) {
        Ok(sandbox) => {
            let reset =
                if sandbox.pagemap_scan() { "by the page map" } else { "by copying, which is slower" };
            Finding::ok(NAME, format!("{instances} instances; memory is reset {reset}"))
        }
        Err(error) => Finding::error(
            NAME,
            error.to_string(),
            "allow the address space (`ulimit -v unlimited`, `vm.overcommit_memory` 0 or 1), or lower `sandbox.instances`",
        ),
    }
}

fn check_memory() -> Finding {
    const NAME: &str = "memory";
    let of_machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_bytes(&text));
    let Some(available) = of_machine.into_iter().chain(cgroup_bytes()).min() else {
        return Finding::warning(NAME, "it is not known", "mount `/proc`");
    };
    let message = format!("{:.1} GiB are available", available as f64 / GIB);
    match available < MEMORY_BYTES {
        true => Finding::warning(
            NAME,
            message,
            "give the daemon 512 MiB or more, which compiling a large plugin takes",
        ),
        false => Finding::ok(NAME, message),
    }
}

/// The memory that programs can get, from the text of `/proc/meminfo`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
}

/// The limit of the control group (version 2) of this process.
fn cgroup_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    fs::read_to_string(format!("/sys/fs/cgroup{group}/memory.max")).ok()?.trim().parse().ok()
}

fn check_open_files(config: &Config) -> Finding {
    const NAME: &str = "open files";
    let allowed = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let OpenFiles { usual, most } = open_files(config);
    match allowed < usual {
        true => Finding::warning(
            NAME,
            open_files_message(allowed, most),
            "raise the limit of the service, or lower `http.connections` or `sandbox.instances`",
        ),
        false => Finding::ok(
            NAME,
            format!(
                "the limit is {allowed}; {usual} are usual, and {most} if each call opens all that it may"
            ),
        ),
    }
}

fn check_space(config: &Config, folder: &Path) -> Finding {
    const NAME: &str = "disk space";
    let disk = match rustix::fs::statvfs(folder) {
        Ok(disk) => disk,
        Err(error) => {
            return Finding::warning(NAME, format!("it is not known: {error}"), "check the data folder");
        }
    };
    let free = free_bytes(&disk);
    let message = format!("{:.1} GiB are free in `{}`", free as f64 / GIB, folder.display());
    let is_new = !config.data.join("audit").is_dir();
    // The log has a segment in use and one prepared.
    let first = config.audit.segment_bytes.saturating_mul(2).saturating_add(CODE_BYTES);
    if is_new && free < first {
        let hint = format!(
            "free {} MiB, which a new data folder takes, or lower `audit.segment_bytes`",
            first >> 20
        );
        return Finding::error(NAME, message, hint);
    }
    if free < DISK_BYTES {
        return Finding::warning(NAME, message, "free space: on a full disk, changes and calls are refused");
    }
    if disk.f_files > 0 && disk.f_favail < INODES {
        return Finding::warning(
            NAME,
            format!("{} inodes are free", disk.f_favail),
            "remove files from the disk",
        );
    }
    Finding::ok(NAME, message)
}

/// Free bytes for this user: some blocks are reserved for root.
fn free_bytes(disk: &StatVfs) -> u64 {
    let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    blocks.saturating_mul(disk.f_frsize)
}

/// The time of a synced write; `None` if the folder cannot be written, which the settings tell.
fn check_speed(folder: &Path) -> Option<Finding> {
    const NAME: &str = "disk speed";
    let median = median_sync(folder).ok()?;
    let message = format!("a synced write takes {:.1} ms", median.as_secs_f64() * 1e3);
    Some(match median > SLOW_SYNC {
        true => Finding::warning(
            NAME,
            message,
            "use a local disk for the data folder: each call waits for such a write",
        ),
        false => Finding::ok(NAME, message),
    })
}

fn median_sync(folder: &Path) -> io::Result<Duration> {
    // Without a name, so that nothing stays behind.
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.rewind()?;
        file.write_all(&[0; BLOCK_BYTES])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(SYNCS / 2).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn a_clock_before_the_program_is_an_error() {
        assert_eq!(check_clock(SystemTime::UNIX_EPOCH).state, State::Error);
        assert_ne!(check_clock(SystemTime::now()).state, State::Error);
    }

    #[test]
    fn a_kernel_without_landlock_is_told_with_a_way_out() {
        let mut support = WallSupport::detect();
        support.available.append(&mut support.missing);
        assert_eq!(check_hardening(Hardening::Required, &support).state, State::Ok);
        assert_eq!(check_hardening(Hardening::Off, &support).state, State::Warning);
        let (missing, available) = support.available.into_iter().partition(|part| part.name == "files");
        let found = check_hardening(Hardening::BestEffort, &WallSupport { available, missing });
        assert_eq!(found.state, State::Warning);
        assert!(
            found.message.contains("files (Linux 5.19") && found.hint.contains("lsm=landlock"),
            "{found:?}"
        );
    }

    #[test]
    fn a_disk_without_room_for_a_new_data_folder_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config { data: folder.path().join("data"), ..Config::default() };
        assert_ne!(check_space(&config, folder.path()).state, State::Error);
        config.audit.segment_bytes = u64::MAX;
        assert_eq!(check_space(&config, folder.path()).state, State::Error);
    }

    #[test]
    fn the_speed_of_a_disk_is_measured_without_a_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(check_speed(folder.path()).is_some());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert!(check_speed(&folder.path().join("none")).is_none());
    }

    #[test]
    fn available_memory_is_read_from_its_line() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:   2 kB\n"), Some(2048));
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), None);
    }
}
