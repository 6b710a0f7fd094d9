//! Entries of tar archives: folders and files without owners.

use std::io::{self, Write};

use tar::{Builder, EntryType, Header};

pub fn add_folder(archive: &mut Builder<impl Write>, name: &str, modified_s: u64) -> io::Result<()> {
    let mut header = header(EntryType::Directory, 0o755, modified_s);
    archive.append_data(&mut header, format!("{}/", name.trim_end_matches('/')), io::empty())
}

pub fn add_file(
    archive: &mut Builder<impl Write>,
    name: &str,
    content: &[u8],
    modified_s: u64,
) -> io::Result<()> {
    let mut header = header(EntryType::Regular, 0o644, modified_s);
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, name, content)
}

fn header(kind: EntryType, mode: u32, modified_s: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(modified_s);
    header.set_size(0);
    header
}
