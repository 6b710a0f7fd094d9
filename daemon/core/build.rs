//! Sets the platform for `src/version.rs`.

fn main() {
    let target = std::env::var_os("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=TOOLGATE_TARGET={}", target.to_string_lossy());
    println!("cargo::rerun-if-changed=build.rs");
}
