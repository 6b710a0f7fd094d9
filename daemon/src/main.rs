//! The binary `toolgate`.

fn main() -> std::process::ExitCode {
    toolgate::main()
}
