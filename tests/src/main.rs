//! Binary under test: the same `main` as `toolgate`, and the attempts of a process behind the wall.

mod probe_attempts;

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match arguments.split_first() {
        Some((command, rest)) if command == toolgate_tests::wall_probe::COMMAND => probe_attempts::main(rest),
        _ => toolgate::main(None),
    }
}
