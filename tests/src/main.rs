//! The daemon, built for the tests of this package to start: the same `main` as that of the binary `toolgate`.

fn main() -> std::process::ExitCode {
    toolgate::main()
}
