//! The signature of a plugin file, which is in `FILE.sig` beside it.

use std::path::{Path, PathBuf};

use super::read_limited;
use crate::failure::Result;

/// Most bytes of a signature that are read; the daemon takes fewer.
const SIGNATURE_BYTES: u64 = 64 * 1024;

/// The file for the signature of a plugin file.
pub fn signature_beside(file: &Path) -> PathBuf {
    let mut beside = file.to_owned().into_os_string();
    beside.push(".sig");
    beside.into()
}

/// Reads a signature from its file.
pub fn read_signature(file: &Path) -> Result<Vec<u8>> {
    read_limited(file, SIGNATURE_BYTES, "give the file that `toolgate plugin sign` wrote")
}

/// Reads the signature beside a plugin file, if there is one.
pub fn find_signature(file: &Path) -> Result<Option<Vec<u8>>> {
    Some(signature_beside(file))
        .filter(|beside| beside.exists())
        .map(|beside| read_signature(&beside))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o2_a_signature_beside_its_file_is_read_unless_it_is_too_large() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.wasm");
        assert_eq!(find_signature(&file).expect("none"), None);
        std::fs::write(folder.path().join("a.wasm.sig"), "{}").expect("written");
        assert_eq!(find_signature(&file).expect("a signature"), Some(b"{}".to_vec()));
        std::fs::write(folder.path().join("a.wasm.sig"), [0; 64 * 1024 + 1]).expect("written");
        assert!(find_signature(&file).expect_err("too large").to_string().contains("65536 bytes"));
    }
}
