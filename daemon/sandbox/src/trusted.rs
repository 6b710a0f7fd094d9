//! The `unsafe` of the crate: native code enters the process here alone.

#![allow(unsafe_code)]

use wasmtime::component::Component;
use wasmtime::{Config, Engine};

pub(crate) fn deserialize(engine: &Engine, artifact: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `Sandbox::load` documents that its caller authenticated these bytes as the unchanged output of `precompile`; the
    // daemon checks an HMAC, or a digest in a list of root, over the same buffer before it calls.
    unsafe { Component::deserialize(engine, artifact) }
}

pub(crate) fn allow_x86_64_v2(settings: &mut Config) {
    // SAFETY: the flag allows instructions alone, and wasmtime loads no code with instructions that the processor lacks.
    unsafe { settings.cranelift_flag_enable("x86-64-v2") };
}
