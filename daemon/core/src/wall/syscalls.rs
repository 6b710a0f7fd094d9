//! System calls that the daemon and its compile worker may not make (seccomp).
//!
//! The daemon has a list of refused calls, since the libraries that it uses need many, and more with each version. The compile
//! worker has a list of allowed ones: it reads, computes and writes. A refused call fails with `EPERM`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

// `SYS_…`, the numbers of the system calls.
use libc::*;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused to the daemon with any arguments.
#[rustfmt::skip]
const REFUSED: &[i64] = &[
    // Memory and descriptors of other processes.
    SYS_kcmp, SYS_pidfd_getfd, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace,
    // Mounts, roots and namespaces.
    SYS_chroot, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_mount, SYS_mount_setattr, SYS_move_mount,
    SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_open_tree, SYS_pivot_root, SYS_setns, SYS_umount2, SYS_unshare,
    // Parts of the kernel with a history of holes, which nothing here uses.
    SYS_add_key, SYS_bpf, SYS_fanotify_init, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup,
    SYS_keyctl, SYS_lookup_dcookie, SYS_nfsservctl, SYS_perf_event_open, SYS_personality, SYS_request_key,
    SYS_userfaultfd,
    // The machine.
    SYS_acct, SYS_adjtimex, SYS_clock_adjtime, SYS_clock_settime, SYS_delete_module, SYS_finit_module,
    SYS_init_module, SYS_kexec_load, SYS_quotactl, SYS_reboot, SYS_setdomainname, SYS_sethostname, SYS_settimeofday,
    SYS_swapoff, SYS_swapon, SYS_syslog, SYS_vhangup,
    // Other users.
    SYS_capset, SYS_setfsgid, SYS_setfsuid, SYS_setgid, SYS_setgroups, SYS_setregid, SYS_setresgid, SYS_setresuid,
    SYS_setreuid, SYS_setuid,
    // A program by its descriptor. Landlock bounds `execve` to the compile worker.
    SYS_execveat,
    // The sockets of the settings listen already.
    SYS_listen,
    // Mode, owner and attributes of files by their path, which Landlock does not bound. Those of open files stay.
    SYS_fchmodat, SYS_fchmodat2, SYS_fchownat, SYS_lremovexattr, SYS_lsetxattr, SYS_removexattr, SYS_setxattr,
];

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const REFUSED_HERE: &[i64] = &[
    SYS_ioperm, SYS_iopl, SYS_kexec_file_load, SYS_modify_ldt, SYS_uselib,
    // The older calls for mode, owner and times.
    SYS_chmod, SYS_chown, SYS_futimesat, SYS_lchown, SYS_utime, SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Allowed to the compile worker: its pipes, memory, threads and clocks.
#[rustfmt::skip]
const ALLOWED: &[i64] = &[
    SYS_brk, SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_close, SYS_dup, SYS_exit, SYS_exit_group,
    SYS_fcntl, SYS_fstat, SYS_futex, SYS_get_robust_list, SYS_getcpu, SYS_getcwd, SYS_getpid, SYS_getppid, SYS_getrandom,
    SYS_getrlimit, SYS_getrusage, SYS_gettid, SYS_lseek, SYS_madvise, SYS_membarrier, SYS_mmap, SYS_mprotect,
    SYS_mremap, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_ppoll, SYS_prctl, SYS_prlimit64, SYS_read,
    SYS_readlinkat, SYS_readv, SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sched_getaffinity, SYS_sched_yield, SYS_set_robust_list, SYS_sigaltstack, SYS_statx, SYS_sysinfo, SYS_tgkill,
    SYS_uname, SYS_write, SYS_writev,
];

#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[SYS_arch_prctl, SYS_getdents64, SYS_poll, SYS_readlink, SYS_stat, SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// Set in the numbers of the x32 ABI, which reaches the same calls by other numbers. No program for x86-64 makes them.
const X32: i64 = 0x4000_0000;

/// The calls that have a number of their own in the x32 ABI, such as `ptrace` and `execveat` (`syscall_64.tbl`).
const X32_OWN: RangeInclusive<i64> = 512..=547;

/// `CLONE_NEW…` of `linux/sched.h`: mounts, control groups, host name, System V IPC, users, processes, network.
const NAMESPACES: [u64; 7] =
    [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];

/// `CLONE_THREAD` of `linux/sched.h`.
const THREAD: u64 = 0x0001_0000;

/// Address families and types of sockets (`linux/socket.h`, `linux/net.h`).
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const SOCK_STREAM: u64 = 1;
const SOCK_RAW: u64 = 3;
const SOCK_SEQPACKET: u64 = 5;
const SOCK_TYPES: u64 = 0xf;

/// `PR_SET_DUMPABLE` of `linux/prctl.h`.
const SET_DUMPABLE: u64 = 4;

/// Whether the kernel filters system calls.
pub(super) fn are_available() -> bool {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail");
    // A service manager may hide the first file.
    let status = std::fs::read_to_string("/proc/self/status");
    actions.is_ok_and(|actions| actions.split_whitespace().any(|action| action == "errno"))
        || status.is_ok_and(|status| status.contains("\nSeccomp_filters:"))
}

/// Refuses the daemon what it does not need, in all of its threads and in its compile worker.
pub(super) fn restrict_daemon() -> Result<(), Error> {
    apply_filter_all_threads(&refusal_of_clone3()?)?;
    apply_filter_all_threads(&daemon_filter()?)
}

/// Refuses the compile worker all but what it needs.
pub(super) fn restrict_worker() -> Result<(), Error> {
    apply_filter_all_threads(&refusal_of_clone3()?)?;
    apply_filter_all_threads(&worker_filter()?)
}

fn daemon_filter() -> Result<BpfProgram, Error> {
    compile(daemon_rules()?, SeccompAction::Allow, refusal())
}

fn daemon_rules() -> Result<Rules, Error> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|number| (*number, Vec::new())).collect();
    let namespaces = NAMESPACES.map(|flag| rule(&[(0, MaskedEq(flag), flag)]));
    rules.insert(SYS_clone, namespaces.into_iter().collect::<Result<_, _>>()?);
    rules.insert(
        SYS_socket,
        vec![
            rule(&[(0, Ne, AF_UNIX), (0, Ne, AF_INET), (0, Ne, AF_INET6)])?,
            rule(&[(1, MaskedEq(SOCK_TYPES), SOCK_RAW)])?,
            // Servers of this machine, such as those of containers. The service manager gets datagrams.
            rule(&[(0, Eq, AF_UNIX), (1, MaskedEq(SOCK_TYPES), SOCK_STREAM)])?,
            rule(&[(0, Eq, AF_UNIX), (1, MaskedEq(SOCK_TYPES), SOCK_SEQPACKET)])?,
        ],
    );
    rules.insert(SYS_prctl, vec![rule(&[(0, Eq, SET_DUMPABLE), (1, Eq, 1)])?]);
    if cfg!(target_arch = "x86_64") {
        let numbers: Vec<i64> = rules.keys().copied().chain(X32_OWN).chain([SYS_clone3]).collect();
        rules.extend(numbers.into_iter().map(|number| (number | X32, Vec::new())));
    }
    Ok(rules)
}

fn worker_filter() -> Result<BpfProgram, Error> {
    let mut rules: Rules = ALLOWED.iter().chain(ALLOWED_HERE).map(|number| (*number, Vec::new())).collect();
    rules.insert(SYS_clone, vec![rule(&[(0, MaskedEq(THREAD), THREAD)])?]);
    // The other filter refuses it, with the error that makes the C library use `clone`.
    rules.insert(SYS_clone3, Vec::new());
    compile(rules, refusal(), SeccompAction::Allow)
}

/// The flags of `clone3` lie in memory, where no filter reads them. Without it, the C library uses `clone`.
fn refusal_of_clone3() -> Result<BpfProgram, Error> {
    let missing = SeccompAction::Errno(ENOSYS.unsigned_abs());
    compile(Rules::from([(SYS_clone3, Vec::new())]), SeccompAction::Allow, missing)
}

fn refusal() -> SeccompAction {
    SeccompAction::Errno(EPERM.unsigned_abs())
}

/// A rule that fits if all of its conditions do, each an argument by its index, an operator and a value.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, Error> {
    let conditions = conditions
        .iter()
        .map(|(index, operator, value)| SeccompCondition::new(*index, Dword, operator.clone(), *value))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(SeccompRule::new(conditions)?)
}

fn compile(rules: Rules, otherwise: SeccompAction, fitting: SeccompAction) -> Result<BpfProgram, Error> {
    let filter = SeccompFilter::new(rules, otherwise, fitting, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_are_within_the_limits_of_the_kernel() {
        // `BPF_MAXINSNS` of `linux/bpf_common.h`.
        for filter in [daemon_filter(), worker_filter(), refusal_of_clone3()] {
            assert!(filter.expect("a program").len() <= 4096);
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn no_call_is_reached_by_its_number_of_another_abi() {
        let rules = daemon_rules().expect("rules");
        let natives = rules.keys().filter(|number| *number & X32 == 0);
        let (ptrace, execveat) = (521, 545);
        for number in natives.chain(&[ptrace, execveat, SYS_socket, SYS_clone, SYS_clone3]) {
            let other = rules.get(&(number | X32));
            assert!(other.is_some_and(Vec::is_empty), "{number} is not refused with any arguments");
        }
        // The usual calls are not refused by their own number.
        assert!(
            !rules.contains_key(&SYS_read) && rules.get(&SYS_socket).is_some_and(|rules| !rules.is_empty())
        );
    }

    #[test]
    fn nothing_is_both_needed_by_the_worker_and_refused_to_the_daemon() {
        // The worker is behind both filters.
        assert!(!ALLOWED.iter().any(|number| REFUSED.contains(number)));
    }
}
