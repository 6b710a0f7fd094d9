//! Passwords and access tokens that an operator keeps in files.

use std::io::Read;
use std::path::Path;

use toolgate_sandbox::Secret;
use zeroize::Zeroizing;

/// Far more than a password or an access token has. A wrong file is not read completely.
const PASSWORD_BYTES: u64 = 16 << 10;

/// Reads a password from a file, without the white space around it.
pub fn read_password(path: &Path) -> std::io::Result<Secret> {
    let mut text = Zeroizing::new(Vec::new());
    std::fs::File::open(path)?.take(PASSWORD_BYTES).read_to_end(&mut text)?;
    Ok(Secret::new(text.trim_ascii().to_vec()))
}
