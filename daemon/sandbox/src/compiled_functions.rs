//! Functions that were compiled before, for the next component with the same code.
//!
//! A component of a scripting language is a runtime, whose functions are the same in each build, and a snapshot of its memory, which
//! is not. Its functions take most of the compile time, so they are kept. Only components that differ in nothing but the
//! [data of their modules](without_data) share them: a file that misleads the compiler spoils the code of no other plugin.

use std::borrow::Cow;
use std::collections::HashMap;

use parking_lot::Mutex;
use wasmtime::CacheStore;

use crate::bulk_memory::sections_without_data;

/// Bytes of a length in the list of functions.
const LENGTH_BYTES: usize = 4;

/// Compiled functions, by the keys that the compiler makes from their instructions.
#[derive(Debug, Default)]
pub struct CompiledFunctions {
    known: HashMap<Vec<u8>, Vec<u8>>,
    new: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl CompiledFunctions {
    /// Reads what [`CompiledFunctions::write`] wrote. The rest of a list that is cut is left out.
    pub fn read(mut list: &[u8]) -> Self {
        let mut next = || {
            let (length, rest) = list.split_first_chunk::<LENGTH_BYTES>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (item, rest) = rest.split_at_checked(length)?;
            list = rest;
            Some(item.to_vec())
        };
        let known = std::iter::from_fn(|| Some((next()?, next()?))).collect();
        Self { known, new: Mutex::default() }
    }

    /// The list of all functions, each a key and its code, both after their length; empty if no function is new.
    pub fn write(&self) -> Vec<u8> {
        let (mut list, new) = (Vec::new(), self.new.lock());
        if new.is_empty() {
            return list;
        }
        for item in self.known.iter().chain(new.iter().map(|(key, code)| (key, code))) {
            for bytes in [item.0, item.1] {
                list.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
                list.extend_from_slice(bytes);
            }
        }
        list
    }
}

impl CacheStore for CompiledFunctions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.known.get(key).map(|code| Cow::Borrowed(&**code))
    }

    fn insert(&self, key: &[u8], code: Vec<u8>) -> bool {
        self.new.lock().push((key.to_vec(), code));
        true
    }
}

/// The sections of a component that decide its compiled functions, each with its number: all but data, globals and sizes of memories of
/// its modules. None for a file that cannot be read.
pub fn without_data(component: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut sections = Vec::new();
    sections_without_data(component, 0, &mut sections).ok()?;
    Some(sections)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::precompile;

    fn component(data: &str, body: &str) -> Vec<u8> {
        let text = format!(
            r#"(component (core module
                (memory 1) (global i32 (i32.const {length})) (data (i32.const 8) "{data}")
                (func (export "a") (param i32) (result i32) {body})
                (func (export "b") (param i32) (result i32) (i32.load (local.get 0)))))"#,
            length = data.len()
        );
        wat::parse_str(text).expect("a component")
    }

    #[test]
    fn a_component_with_other_data_takes_the_functions_of_another() {
        let body = "(i32.add (local.get 0) (i32.const 1))";
        let (first, second) = (component("one", body), component("another", body));
        assert_eq!(without_data(&first), without_data(&second));
        let functions = Arc::new(CompiledFunctions::default());
        precompile(&first, Some(&functions)).expect("compiled");
        let kept = Arc::new(CompiledFunctions::read(&functions.write()));
        let compiled = precompile(&second, Some(&kept)).expect("compiled");
        // The compiler's key of a function depends now and then on what its thread compiled before, which costs a compilation.
        let (new, all) = (kept.new.lock().len(), functions.new.lock().len());
        assert!(new < all, "{new} of {all} functions are compiled again");
        assert_eq!(compiled, precompile(&second, None).expect("compiled"), "the code is the same");
    }

    #[test]
    fn a_component_with_other_code_shares_nothing() {
        let component = |body| component("one", body);
        let (one, other) = (component("(local.get 0)"), component("(i32.const 1)"));
        assert_ne!(without_data(&one), without_data(&other));
        let functions = Arc::new(CompiledFunctions::default());
        precompile(&one, Some(&functions)).expect("compiled");
        let kept = Arc::new(CompiledFunctions::read(&functions.write()));
        precompile(&other, Some(&kept)).expect("compiled");
        assert_ne!(kept.write(), b"", "a function is new");
    }

    #[test]
    fn a_list_that_is_cut_has_the_functions_before_the_cut() {
        let functions = CompiledFunctions::default();
        functions.insert(b"a", b"code".to_vec());
        functions.insert(b"b", b"more".to_vec());
        let list = functions.write();
        for length in 0..=list.len() {
            let read = CompiledFunctions::read(&list[..length]);
            let expected = length / (list.len() / 2);
            assert_eq!(read.known.len(), expected, "{length} bytes");
        }
        assert_eq!(CompiledFunctions::read(&list).get(b"b").as_deref(), Some(&b"more"[..]));
    }
}
