//! Relative paths, parsed once into names that cannot point upwards.
//!
//! Guests may write `.` and `..`; both are resolved in the text. That is exact, because a workspace follows no link,
//! so `a/..` is always the directory it started from. A path that leaves its base is refused. Host routes are
//! stricter: a path has one spelling.

/// Maximum length of a path in bytes, the same as Linux's `PATH_MAX`.
pub(crate) const PATH_BYTES_MAX: usize = 4096;

/// Prefix of the host's temporary files in the top directory: an atomic write creates one before it replaces a file.
/// Guests and routes may not use such names.
pub(crate) const RESERVED_PREFIX: &str = ".toolgate-replace-";

/// Why a path, or the entry at it, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Empty.
    #[error("it is empty")]
    Empty,
    /// Longer than 4096 bytes, or a name longer than 255.
    #[error("it is longer than 4096 bytes, or one of its names than 255")]
    TooLong,
    /// Contains a NUL byte.
    #[error("it contains a NUL byte")]
    Nul,
    /// Begins with `/`.
    #[error("it is absolute")]
    Absolute,
    /// Leaves its base directory.
    #[error("it leads out of the workspace")]
    Escapes,
    /// Has an empty part, `.` or `..`, on a host route.
    #[error("it has an empty part, `.` or `..`")]
    Spelling,
    /// Names a temporary file of the host.
    #[error("it is reserved")]
    Reserved,
    /// Contains a symbolic link.
    #[error("it leads through a symbolic link")]
    Symlink,
    /// Neither a file nor a directory, but a pipe, a device or a socket.
    #[error("it is neither a file nor a folder")]
    NotRegular,
    /// The file has a second name, which may be outside the workspace.
    #[error("it has a second name")]
    HardLinked,
    /// Would create a link.
    #[error("links are not made in a workspace")]
    LinkCreation,
    /// The access is read-only.
    #[error("the workspace is read-only")]
    ReadOnly,
    /// Directories would be nested more than 64 deep.
    #[error("it is nested too deep")]
    TooDeep,
    /// The call has reached its limit of open files.
    #[error("too many files are open")]
    TooManyOpen,
}

impl Refusal {
    /// Whether the refusal denies something forbidden, which goes into the audit log, or just an unusable path.
    pub(crate) fn is_denial(self) -> bool {
        !matches!(self, Self::Empty | Self::TooLong | Self::Nul | Self::Spelling | Self::TooManyOpen)
    }

    /// The fix.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Empty | Self::Spelling | Self::Absolute | Self::Escapes | Self::Nul => {
                "write the path from the top of the workspace, such as `notes/today.txt`"
            }
            Self::TooLong | Self::TooDeep => "use a shorter path",
            Self::Reserved => "use another name",
            Self::Symlink | Self::HardLinked | Self::LinkCreation => "copy the file instead of linking it",
            Self::NotRegular => "use a file or a folder",
            Self::ReadOnly => "ask for a grant that may write",
            Self::TooManyOpen => "close files before opening more",
        }
    }
}

/// A path below some directory: its names in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelativePath {
    names: Vec<String>,
    /// Whether it ended in `/`, `.` or `..`, so that it must be a directory.
    pub(crate) wants_directory: bool,
}

impl RelativePath {
    /// Parses a guest's path, relative to a descriptor.
    pub(crate) fn from_guest(text: &str) -> Result<Self, Refusal> {
        check_text(text)?;
        let mut names: Vec<String> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(names.pop().ok_or(Refusal::Escapes)?),
                name => names.push(parse_name(name)?),
            }
        }
        let last = text.rsplit('/').next();
        Ok(Self { names, wants_directory: matches!(last, Some("" | "." | "..")) })
    }

    /// Parses the path of a host route, relative to the top of the workspace.
    pub(crate) fn from_host(text: &str) -> Result<Self, Refusal> {
        check_text(text)?;
        let names = text.split('/').map(|part| match part {
            "" | "." | ".." => Err(Refusal::Spelling),
            name => parse_name(name),
        });
        Ok(Self { names: names.collect::<Result<_, _>>()?, wants_directory: false })
    }

    /// The names joined by `/`; `None` if the path is its base directory.
    pub(crate) fn join(&self) -> Option<String> {
        (!self.names.is_empty()).then(|| self.names.join("/"))
    }

    /// The parent names and the last name; `None` if the path is its base directory.
    pub(crate) fn split(&self) -> Option<(&[String], &str)> {
        self.names.split_last().map(|(name, parents)| (parents, name.as_str()))
    }
}

fn check_text(text: &str) -> Result<(), Refusal> {
    match text {
        "" => Err(Refusal::Empty),
        _ if text.len() > PATH_BYTES_MAX => Err(Refusal::TooLong),
        _ if text.contains('\0') => Err(Refusal::Nul),
        _ if text.starts_with('/') => Err(Refusal::Absolute),
        _ => Ok(()),
    }
}

fn parse_name(name: &str) -> Result<String, Refusal> {
    if name.starts_with(RESERVED_PREFIX) {
        return Err(Refusal::Reserved);
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(text: &str) -> Result<String, Refusal> {
        RelativePath::from_guest(text).map(|path| path.names.join("/"))
    }

    #[test]
    fn dots_are_worked_out_in_the_text() {
        assert_eq!(guest("a/./b//c"), Ok("a/b/c".into()));
        assert_eq!(guest("a/../b"), Ok("b".into()));
        assert_eq!(guest("a/.."), Ok(String::new()));
        assert_eq!(guest("..a/b..c"), Ok("..a/b..c".into()));
    }

    #[test]
    fn a_path_that_climbs_out_is_refused() {
        for text in ["..", "../x", "a/../..", "a/../../b", "./..", "a/b/../../../c"] {
            assert_eq!(guest(text), Err(Refusal::Escapes), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_path_is_refused() {
        assert_eq!(guest(""), Err(Refusal::Empty));
        assert_eq!(guest("/etc/passwd"), Err(Refusal::Absolute));
        assert_eq!(guest("a\0b"), Err(Refusal::Nul));
        assert_eq!(guest(&"a/".repeat(2049)), Err(Refusal::TooLong));
        assert_eq!(guest(".toolgate-replace-1"), Err(Refusal::Reserved));
    }

    #[test]
    fn a_trailing_slash_asks_for_a_folder() {
        for text in ["a/", "a/.", "a/b/.."] {
            assert!(RelativePath::from_guest(text).unwrap().wants_directory, "{text}");
        }
        assert!(!RelativePath::from_guest("a/b").unwrap().wants_directory);
    }

    #[test]
    fn routes_take_one_spelling_only() {
        for text in ["a//b", "a/", "./a", "a/../b", ".."] {
            assert_eq!(RelativePath::from_host(text), Err(Refusal::Spelling), "{text}");
        }
        assert!(RelativePath::from_host("a/b c/ü\n").is_ok());
    }
}
