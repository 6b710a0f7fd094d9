//! `move`: another name for a file or a folder.

use std::fs;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::atomic_write::remove_folders;
use crate::workspace::{Kind, Place, Workspace};

/// Moves or renames a file or a folder, with all that is in it.
///
/// `to` is the new path, not the folder to move into. Makes the folders it needs. A file that is at `to` is replaced
/// only where `overwrite` is true, a folder never.
#[tool(
    name = "move",
    destructive,
    open_world = false,
    tags("file", "folder", "rename", "mv"),
    examples({"from": "notes.md", "to": "archive/notes.md"}
        => {"from": "notes.md", "to": "archive/notes.md", "kind": "file", "replaced": false})
)]
pub fn move_path(
    /// The file or folder, from the workspace's root
    from: String,
    /// Its new path, from the workspace's root
    to: String,
    /// Whether a file that is there is replaced
    #[default]
    overwrite: bool,
) -> Result<Moved, Error> {
    Workspace::of_session().move_path(&from, &to, overwrite)
}

/// The moved file or folder.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Moved {
    /// The path before
    pub from: String,
    /// The path now
    pub to: String,
    pub kind: Kind,
    /// Whether a file was replaced
    pub replaced: bool,
}

/// Where something goes from and to, after all that can be wrong with it was looked at.
pub struct Transfer {
    pub from: Place,
    pub to: Place,
    pub kind: Kind,
    /// Whether a file is at `to`.
    pub replaces: bool,
}

impl Workspace {
    pub fn move_path(&self, from: &str, to: &str, overwrite: bool) -> Result<Moved, Error> {
        let Transfer { from, to, kind, replaces } = self.transfer(from, to, overwrite)?;
        let made = self.make_folders(&to)?;
        fs::rename(&from.path, &to.path).map_err(|error| {
            remove_folders(&made);
            self.explain(&error, &from, "moved")
        })?;
        Ok(Moved { from: from.name, to: to.name, kind, replaced: replaces })
    }

    /// Looks at what goes where, for `move` and `copy`.
    pub fn transfer(&self, from: &str, to: &str, overwrite: bool) -> Result<Transfer, Error> {
        let from = self.place(from)?;
        let kind = Kind::of(&self.look(&from)?);
        if matches!(kind, Kind::Link | Kind::Other) {
            return Err(Error::new(format!(
                "`{}` is no file and no folder, and stays where it is",
                from.name
            )));
        }
        let into_folder = to.ends_with('/');
        let to = self.place(to)?;
        check_names(&from, &to)?;
        let found = fs::symlink_metadata(&to.path).ok().map(|metadata| Kind::of(&metadata));
        let is_folder = found == Some(Kind::Folder) || (into_folder && kind == Kind::File);
        match found {
            _ if is_folder => {
                let inside = to.under(from.file_name());
                Err(Error::new(format!(
                    "`{}` is a folder: write the whole new path, as `{}`, or delete it first",
                    to.name, inside.name
                )))
            }
            Some(Kind::File) if kind == Kind::Folder => {
                Err(Error::new(format!("`{}` is a file, and a folder does not replace it", to.name)))
            }
            Some(Kind::File) if !overwrite => Err(Error::new(format!(
                "`{}` is there already: choose another path, or set `overwrite` to replace it",
                to.name
            ))),
            Some(Kind::Link | Kind::Other) => {
                Err(Error::new(format!("`{}` is a link or no usual file: choose another path", to.name)))
            }
            found => Ok(Transfer { from, to, kind, replaces: found.is_some() }),
        }
    }
}

/// Refuses the workspace itself, and a target that is the source or lies in it.
fn check_names(from: &Place, to: &Place) -> Result<(), Error> {
    let (source, target) = (&from.name, &to.name);
    if source == "." || target == "." {
        return Err(Error::invalid("`.` is the workspace itself: name what is in it"));
    }
    if source == target {
        return Err(Error::invalid(format!("`{source}` is both `from` and `to`")));
    }
    if to.is_within(from) {
        return Err(Error::invalid(format!("`{target}` lies in `{source}` itself: choose another path")));
    }
    Ok(())
}
