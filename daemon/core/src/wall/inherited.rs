//! Descriptors and variables that the daemon inherited from the program that started it.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

/// Standard input, output and error.
const STANDARD: RawFd = 2;

/// Marks every open descriptor, besides the standard ones, as closed at `execve`. The daemon's own are marked already.
pub(super) fn close_at_exec() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        open.extend(number.filter(|number| *number > STANDARD));
    }
    for number in open {
        // SAFETY: the descriptor is only borrowed for two calls of `fcntl`, which neither close it nor use the file behind it. If
        // it is closed meanwhile, they fail with `EBADF`.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let marked =
            fcntl_getfd(descriptor).and_then(|flags| fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC));
        match marked {
            // The folder that listed them.
            Ok(()) | Err(Errno::BADF) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Puts temporary files into a folder, those of SQLite too. `/tmp` and `/var/tmp` are out of reach behind the wall.
/// `threads` is the number of threads of the process; with more than one the environment stays as it is.
pub(super) fn keep_temporary_files(folder: &Path, threads: usize) {
    // The folder is set once in a process.
    let _ = tempfile::env::override_temp_dir(folder);
    if threads == 1 {
        // SAFETY: no other thread reads the environment, since there is none.
        unsafe { std::env::set_var("SQLITE_TMPDIR", folder) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn an_inherited_descriptor_is_closed_at_exec() {
        let file = tempfile::tempfile().expect("a file");
        fcntl_setfd(file.as_fd(), FdFlags::empty()).expect("as an inherited one");
        close_at_exec().expect("marked");
        assert!(fcntl_getfd(file.as_fd()).expect("flags").contains(FdFlags::CLOEXEC));
    }
}
