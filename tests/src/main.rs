//! Binary under test: the same `main` as `toolgate`.

fn main() -> std::process::ExitCode {
    toolgate::main(None)
}
