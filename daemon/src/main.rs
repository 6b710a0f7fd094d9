//! The binary `toolgate`.

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "compile-worker" {
        return std::process::ExitCode::from(toolgate::compile::worker(args[2].parse().unwrap(), args[3].parse().unwrap()) as u8);
    }
    tracing_subscriber::fmt().init();
    if let Err(e) = toolgate::quickstart::run(args.get(2).is_some()) { eprintln!("{e:#}"); return std::process::ExitCode::FAILURE; }
    toolgate::main()
}
