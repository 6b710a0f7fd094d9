//! Commands that change files: `cp`, `mv`, `rm`, `mkdir`, `touch`.

use std::io;

use super::list::keep_root;
use crate::call::Call;
use crate::files::{Kind, Place, TEMPORARY, explain};
use crate::shell::{Outcome, fail};

/// Folders in folders that a copy follows.
const MAX_DEPTH: u32 = 64;

/// `cp` and `mv`
pub fn copy(call: &mut Call<'_>) -> Outcome {
    let is_move = call.name == "mv";
    let known = if is_move { "fnvt:T" } else { "rRapfnvt:T" };
    let options =
        call.options(known, "recursive=r force=f no-clobber=n verbose=v target-directory=t", false)?;
    let (sources, target) = match (options.value('t'), options.rest.split_last()) {
        (Some(target), _) => (options.rest.as_slice(), target.to_owned()),
        (None, Some((target, sources))) if !sources.is_empty() => (sources, target.clone()),
        _ => return fail("needs a source and a destination"),
    };
    let into_folder = call.place(&target).is_ok_and(|place| place.is_folder()) && !options.has('T');
    if sources.len() > 1 && !into_folder {
        return fail(format!("target '{target}': Not a directory"));
    }
    let is_recursive = options.has('r') || options.has('R') || options.has('a');
    let mut status = 0;
    for source in sources {
        let name = call.shell.files.absolute(&call.shell.state.current, source);
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        // `folder/.` names what is in the folder.
        let last = source.trim_end_matches('/').rsplit('/').next();
        let into = match last {
            Some("." | "..") => target.clone(),
            _ if into_folder => format!("{}/{name}", target.trim_end_matches('/')),
            _ => target.clone(),
        };
        let outcome = copy_one(call, source, &into, is_recursive, options.has('n'));
        match outcome {
            Ok(()) if options.has('v') => {
                call.line(format!("{}'{source}' -> '{into}'", if is_move { "renamed " } else { "" }))?
            }
            Ok(()) => {}
            Err(message) => {
                call.complain(&message)?;
                status = 1;
            }
        }
    }
    Ok(status)
}

fn copy_one(
    call: &Call<'_>,
    source: &str,
    target: &str,
    is_recursive: bool,
    keeps: bool,
) -> Result<(), String> {
    let is_move = call.name == "mv";
    let verb = if is_move { "move" } else { "copy" };
    let of = |path: &str, error: &io::Error| format!("cannot {verb} '{path}': {}", explain(error));
    let from = call.place(source).map_err(|error| of(source, &error))?;
    let to = call.place(target).map_err(|error| of(target, &error))?;
    let found =
        from.link_metadata().map_err(|error| format!("cannot stat '{source}': {}", explain(&error)))?;
    if keeps && to.exists() {
        return Ok(());
    }
    let names = [source, target].map(|path| call.shell.files.absolute(&call.shell.state.current, path));
    if names[0] == names[1] {
        return Err(format!("'{source}' and '{target}' are the same file"));
    }
    if found.is_folder() && names[1].starts_with(&format!("{}/", names[0])) {
        return Err(format!("cannot {verb} a directory, '{source}', into itself, '{target}'"));
    }
    if found.is_folder() && to.is_file() {
        return Err(format!("cannot overwrite non-directory '{target}' with directory '{source}'"));
    }
    if is_move {
        keep_root(call, source).map_err(|_| format!("cannot move '{source}': it stays where it is"))?;
        return rename(&from, &to).map_err(|error| of(source, &error));
    }
    if found.is_folder() {
        if !is_recursive {
            return Err(format!("-r not specified; omitting directory '{source}'"));
        }
        return copy_folder(&from, &to, 0).map_err(|error| of(source, &error));
    }
    from.copy_file(&to).map_err(|error| of(target, &error))
}

/// Moves a file or a folder. Between the workspace and `/tmp` it is copied, and then removed.
fn rename(from: &Place, to: &Place) -> io::Result<()> {
    if let Some(renamed) = from.rename(to) {
        return renamed;
    }
    if !from.is_folder() {
        from.copy_file(to)?;
        return from.remove_file();
    }
    if to.exists() {
        to.remove_folder()?;
    }
    copy_folder(from, to, 0)?;
    from.remove_folders()
}

fn copy_folder(from: &Place, to: &Place, depth: u32) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("folders are nested too deep"));
    }
    if !to.is_folder() {
        to.create_folder()?;
    }
    for name in from.names(usize::MAX)? {
        let (from, to) = (from.join(&name), to.join(&name));
        match from.link_metadata()?.kind {
            Kind::Folder => copy_folder(&from, &to, depth + 1)?,
            Kind::File => from.copy_file(&to)?,
            _ => {}
        }
    }
    Ok(())
}

/// Changes each path, of which a message may tell. Failures are complained of.
fn each(
    call: &mut Call<'_>,
    paths: &[String],
    failure: &str,
    mut change: impl FnMut(&Call<'_>, &str) -> io::Result<Option<String>>,
) -> Outcome {
    let mut status = 0;
    for path in paths {
        match change(call, path) {
            Ok(Some(message)) => call.line(message)?,
            Ok(None) => {}
            Err(error) => {
                call.complain(&format!("{failure} '{path}': {}", explain(&error)))?;
                status = 1;
            }
        }
    }
    Ok(status)
}

pub fn remove(call: &mut Call<'_>) -> Outcome {
    let options = call.options("rRfvd", "recursive=r force=f verbose=v dir=d", false)?;
    let is_recursive = options.has('r') || options.has('R');
    if options.rest.is_empty() && !options.has('f') {
        return fail("missing operand");
    }
    each(call, &options.rest, "cannot remove", |call, path| {
        let removed =
            call.place(path).and_then(|place| match (place.link_metadata()?.is_folder(), is_recursive) {
                (false, _) => place.remove_file(),
                (true, true) if keep_root(call, path).is_ok() => place.remove_folders(),
                (true, true) => Err(io::Error::other("it stays: name what is in it")),
                (true, false) if options.has('d') => place.remove_folder(),
                (true, false) => Err(io::ErrorKind::IsADirectory.into()),
            });
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound && options.has('f') => Ok(None),
            removed => removed.map(|()| options.has('v').then(|| format!("removed '{path}'"))),
        }
    })
}

pub fn remove_folder(call: &mut Call<'_>) -> Outcome {
    let options = call.options("p", "", false)?;
    let mut status = 0;
    for path in &options.rest {
        keep_root(call, path)?;
        if let Err(error) = call.place(path).and_then(|place| place.remove_folder()) {
            call.complain(&format!("failed to remove '{path}': {}", explain(&error)))?;
            status = 1;
        }
    }
    Ok(status)
}

/// `mkdir`
pub fn make_folder(call: &mut Call<'_>) -> Outcome {
    let options = call.options("pvm:", "parents=p verbose=v", false)?;
    if options.rest.is_empty() {
        return fail("missing operand");
    }
    each(call, &options.rest, "cannot create directory", |call, path| {
        let place = call.place(path)?;
        match options.has('p') {
            true if place.is_file() => return Err(io::ErrorKind::AlreadyExists.into()),
            true => place.create_folders()?,
            false => place.create_folder()?,
        }
        Ok(options.has('v').then(|| format!("mkdir: created directory '{path}'")))
    })
}

pub fn touch(call: &mut Call<'_>) -> Outcome {
    let options = call.options("acmd:", "no-create=c date=d", false)?;
    let time = match options.value('d') {
        Some(text) => super::date::to_system(super::date::parse(text)?),
        None => std::time::SystemTime::now(),
    };
    each(call, &options.rest, "cannot touch", |call, path| {
        let place = call.place(path)?;
        if !place.is_folder() && (!options.has('c') || place.exists()) {
            place.open(true)?;
            place.set_modified(time)?;
        }
        Ok(None)
    })
}

/// Files of a workspace have no modes, so that nothing changes.
pub fn chmod(call: &mut Call<'_>) -> Outcome {
    let paths = call.arguments.iter().filter(|path| !path.starts_with('-')).skip(1);
    let paths: Vec<String> = paths.cloned().collect();
    each(call, &paths, "cannot access", |call, path| call.place(path)?.metadata().map(|_| None))
}

/// `mktemp`: in `/tmp`, or where the template or `-p` says.
pub fn make_temporary(call: &mut Call<'_>) -> Outcome {
    let options = call.options("dtuqp:S:", "directory=d dry-run=u quiet=q tmpdir=p suffix=S", false)?;
    let template = options.rest.first().map_or("tmp.XXXXXXXXXX", String::as_str);
    let (before, own_suffix) = template.rfind('X').map_or((template, ""), |last| template.split_at(last + 1));
    let kept = before.trim_end_matches('X');
    let count = before.len() - kept.len();
    if count < 3 {
        return fail(format!("too few X's in template '{template}'"));
    }
    let folder = match (options.value('p'), options.has('t') || options.rest.is_empty()) {
        (Some(folder), _) => Some(folder.to_owned()),
        (None, true) => Some(call.shell.get("TMPDIR").unwrap_or(TEMPORARY).to_owned()),
        (None, false) => None,
    };
    let mut name = folder.map_or(String::new(), |folder| format!("{}/", folder.trim_end_matches('/')));
    name.push_str(kept);
    let signs = b"abcdefghijklmnopqrstuvwxyz0123456789";
    for _ in 0..count {
        let index = usize::try_from(call.shell.next_random() % 36).unwrap_or(0);
        name.push(char::from(signs[index]));
    }
    name.push_str(own_suffix);
    name.push_str(options.value('S').unwrap_or_default());
    let place = call.place(&name)?;
    let made = match () {
        () if options.has('u') => Ok(()),
        () if options.has('d') => place.create_folder(),
        () if place.exists() => Err(io::ErrorKind::AlreadyExists.into()),
        () => place.write(""),
    };
    if let Err(error) = made {
        let kind = if options.has('d') { "directory" } else { "file" };
        return fail(format!("failed to create {kind} via template '{template}': {}", explain(&error)));
    }
    call.line(name).map(|()| 0)
}
