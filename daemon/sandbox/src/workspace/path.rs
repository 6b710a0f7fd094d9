//! Paths, parsed once at the edge into names that cannot point upwards.
//!
//! Guests may write `.` and `..` as everybody does; both are worked out here, in the text. That is exact,
//! because no link is ever followed in a workspace, so `a/..` can be nothing but where one was. What would
//! climb above the folder it starts from is refused. The host's own routes are stricter: a path there has
//! one spelling.

use std::fmt;

/// Longest path in bytes: what Linux itself takes.
const PATH_BYTES_MAX: usize = 4096;

/// Names in the workspace's own folder that begin like this belong to the host: a file is written under
/// such a name before it replaces another. Nobody else may touch them.
pub(crate) const RESERVED_PREFIX: &str = ".toolgate-replace-";

/// Why a path or what it leads to is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is empty.
    Empty,
    /// It is longer than 4096 bytes, or one of its names than 255.
    TooLong,
    /// It contains a NUL byte.
    Nul,
    /// It begins with `/`.
    Absolute,
    /// It climbs above the folder it starts from.
    Escapes,
    /// It has an empty part, `.` or `..`, where one spelling is asked for.
    Spelling,
    /// It names one of the host's own temporary files.
    Reserved,
    /// A symbolic link lies on the way.
    Symlink,
    /// It is neither a file nor a folder, but a pipe, a device or a socket.
    NotRegular,
    /// The file has a second name, which may lie outside the workspace.
    HardLinked,
    /// A link was asked for.
    LinkCreation,
    /// The workspace was given for reading only.
    ReadOnly,
    /// Folders would be nested more than 64 deep.
    TooDeep,
    /// The call holds as many files and folders open as it may.
    TooManyOpen,
}

impl Refusal {
    /// Whether it was an attempt at something forbidden, which goes into the audit, and not just a path
    /// that nobody could use.
    pub(crate) fn is_denial(self) -> bool {
        !matches!(self, Self::Empty | Self::TooLong | Self::Nul | Self::Spelling | Self::TooManyOpen)
    }

    /// What to do instead.
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

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Empty => "it is empty",
            Self::TooLong => "it is longer than 4096 bytes, or one of its names than 255",
            Self::Nul => "it contains a NUL byte",
            Self::Absolute => "it is absolute",
            Self::Escapes => "it leads out of the workspace",
            Self::Spelling => "it has an empty part, `.` or `..`",
            Self::Reserved => "it is reserved",
            Self::Symlink => "it leads through a symbolic link",
            Self::NotRegular => "it is neither a file nor a folder",
            Self::HardLinked => "it has a second name",
            Self::LinkCreation => "links are not made in a workspace",
            Self::ReadOnly => "the workspace is read-only",
            Self::TooDeep => "it is nested too deep",
            Self::TooManyOpen => "too many files are open",
        })
    }
}

/// A path below some folder: names only, in the order they are walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelativePath {
    names: Vec<String>,
    /// It ended in `/`, `.` or `..`, so that only a folder will do.
    pub(crate) wants_directory: bool,
}

impl RelativePath {
    /// As a guest writes it, below the folder of some descriptor.
    pub(crate) fn from_guest(text: &str) -> Result<Self, Refusal> {
        check_text(text)?;
        let mut names: Vec<String> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(names.pop().ok_or(Refusal::Escapes)?),
                name => names.push(checked_name(name)?),
            }
        }
        let last = text.rsplit('/').next();
        Ok(Self { names, wants_directory: matches!(last, Some("" | "." | "..")) })
    }

    /// As a route of the host takes it, from the top of the workspace.
    pub(crate) fn from_host(text: &str) -> Result<Self, Refusal> {
        check_text(text)?;
        let names = text.split('/').map(|part| match part {
            "" | "." | ".." => Err(Refusal::Spelling),
            name => checked_name(name),
        });
        Ok(Self { names: names.collect::<Result<_, _>>()?, wants_directory: false })
    }

    /// The names as one text; nothing where the path is the folder it starts from.
    pub(crate) fn joined(&self) -> Option<String> {
        (!self.names.is_empty()).then(|| self.names.join("/"))
    }

    /// The folders on the way and the last name; nothing where the path is the folder it starts from.
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

fn checked_name(name: &str) -> Result<String, Refusal> {
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
