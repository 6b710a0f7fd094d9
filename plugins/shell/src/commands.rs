//! The commands, each a function over a call.

mod archive;
mod bc;
mod builtin;
mod codec;
mod copy;
mod date;
mod declare;
mod diff;
mod dump;
mod find;
mod grep;
mod inspect;
mod jq;
mod layout;
mod list;
mod patch;
mod pieces;
mod printf;
mod sed;
mod sort;
mod text;
mod translate;
mod tree;
mod xargs;
mod zip;

use crate::awk;
use crate::call::Call;
use crate::shell::Outcome;

pub use date::{format_seconds, now};
pub use printf::{Spec, general};

pub type Run = fn(&mut Call<'_>) -> Outcome;

/// What there is, for an error about a command that there is not.
pub const HINT: &str = "`help` lists the commands of this shell";

/// Commands that are part of the shell in bash too.
const BUILTINS: [(&str, Run); 47] = [
    (".", builtin::source),
    (":", builtin::yes),
    ("[", builtin::bracket),
    ("alias", builtin::yes),
    ("break", builtin::leave_loop),
    ("builtin", builtin::command),
    ("cd", builtin::cd),
    ("command", builtin::command),
    ("continue", builtin::leave_loop),
    ("declare", declare::declare),
    ("dirs", builtin::folders),
    ("disown", builtin::yes),
    ("echo", builtin::echo),
    ("eval", builtin::eval),
    ("exec", builtin::exec),
    ("exit", builtin::exit),
    ("export", declare::declare),
    ("false", builtin::no),
    ("getopts", declare::next_option),
    ("hash", builtin::yes),
    ("help", builtin::help),
    ("jobs", builtin::yes),
    ("kill", crate::execute::kill),
    ("let", builtin::arithmetic),
    ("local", declare::declare),
    ("mapfile", declare::mapfile),
    ("popd", builtin::folders),
    ("printf", printf::printf),
    ("pushd", builtin::folders),
    ("pwd", builtin::pwd),
    ("read", declare::read),
    ("readarray", declare::mapfile),
    ("readonly", declare::declare),
    ("return", builtin::exit),
    ("set", declare::set),
    ("shift", builtin::shift),
    ("shopt", declare::shopt),
    ("source", builtin::source),
    ("test", builtin::bracket),
    ("trap", crate::execute::trap),
    ("true", builtin::yes),
    ("type", builtin::find_type),
    ("typeset", declare::declare),
    ("umask", builtin::umask),
    ("unalias", builtin::yes),
    ("unset", declare::unset),
    ("wait", crate::execute::wait),
];

const COMMANDS: [(&str, Run); 77] = [
    ("awk", awk::awk),
    ("base64", codec::base64),
    ("basename", text::basename),
    ("bash", builtin::bash),
    ("bc", bc::bc),
    ("cat", text::cat),
    ("chmod", copy::chmod),
    ("cmp", diff::cmp),
    ("column", layout::column),
    ("comm", sort::comm),
    ("cp", copy::copy),
    ("cut", text::cut),
    ("date", date::date),
    ("diff", diff::diff),
    ("dirname", text::dirname),
    ("du", tree::du),
    ("egrep", grep::grep),
    ("env", builtin::env),
    ("expr", builtin::expr),
    ("fgrep", grep::grep),
    ("file", inspect::file),
    ("find", find::find),
    ("fold", layout::fold),
    ("gawk", awk::awk),
    ("grep", grep::grep),
    ("gunzip", archive::gzip),
    ("gzip", archive::gzip),
    ("head", text::head),
    ("hostname", builtin::hostname),
    ("id", builtin::whoami),
    ("join", pieces::join),
    ("jq", jq::jq),
    ("ls", list::list),
    ("md5sum", codec::checksum),
    ("mkdir", copy::make_folder),
    ("mktemp", copy::make_temporary),
    ("mv", copy::copy),
    ("nl", text::number),
    ("od", dump::od),
    ("paste", sort::paste),
    ("patch", patch::patch),
    ("printenv", builtin::env),
    ("readlink", text::realpath),
    ("realpath", text::realpath),
    ("rev", text::reverse_signs),
    ("rm", copy::remove),
    ("rmdir", copy::remove_folder),
    ("sed", sed::sed),
    ("seq", text::sequence),
    ("sh", builtin::bash),
    ("sha1sum", codec::checksum),
    ("sha256sum", codec::checksum),
    ("sha512sum", codec::checksum),
    ("shuf", pieces::shuf),
    ("sleep", builtin::sleep),
    ("sort", sort::sort),
    ("split", pieces::split),
    ("stat", inspect::stat),
    ("tac", text::reverse_lines),
    ("tail", text::tail),
    ("tar", archive::tar),
    ("tee", text::tee),
    ("time", crate::execute::time_command),
    ("timeout", builtin::timeout),
    ("touch", copy::touch),
    ("tr", translate::translate),
    ("tree", tree::tree),
    ("uniq", sort::uniq),
    ("unzip", zip::unzip),
    ("wc", text::count),
    ("which", builtin::find_type),
    ("whoami", builtin::whoami),
    ("xargs", xargs::xargs),
    ("xxd", dump::xxd),
    ("yes", text::repeat),
    ("zcat", archive::gzip),
    ("zip", zip::zip),
];

pub fn find(name: &str) -> Option<Run> {
    let in_table = |table: &[(&str, Run)]| {
        table.binary_search_by_key(&name, |(known, _)| known).ok().map(|index| table[index].1)
    };
    in_table(&BUILTINS).or_else(|| in_table(&COMMANDS))
}

pub fn is_builtin(name: &str) -> bool {
    BUILTINS.binary_search_by_key(&name, |(known, _)| known).is_ok()
}

/// The names of all commands.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = BUILTINS.iter().chain(&COMMANDS).map(|(name, _)| *name).collect();
    names.sort_unstable();
    names
}
