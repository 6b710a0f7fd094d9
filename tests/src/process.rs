//! What `/proc` says of a process.

use std::fs;

/// Memory that the process holds, in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    // Field 2 of statm is in pages; the machines that this runs on have pages of 4 KiB.
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).expect("the process lives");
    let pages: u64 = statm.split(' ').nth(1).and_then(|field| field.parse().ok()).expect("a number of pages");
    pages * 4096
}

/// Files, sockets and pipes that the process holds open.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives").count()
}

/// Processes that the process started and that still run.
pub fn children(pid: u32) -> usize {
    fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .map_or(0, |list| list.split_whitespace().count())
}
