//! Guest of the benchmarks: `echo` without the plugin contract.

#![allow(unsafe_code, reason = "the generated bindings are unsafe")]

wit_bindgen::generate!({ world: "functions", path: "wit" });

struct Functions;

export!(Functions);

impl Guest for Functions {
    fn echo(text: String, number: u32) -> Echoed {
        Echoed { text, number }
    }
}
