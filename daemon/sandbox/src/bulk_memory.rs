//! Bulk memory operations in slices, so that a guest that fills or copies a lot yields like one that computes.
//!
//! In native code a `memory.fill`, `memory.copy` or `memory.init` of any length is one call into the C library: no epoch
//! interrupts it, so it would hold a processor for tens of milliseconds and pass its deadline. (Its fuel is charged, by
//! bytes.) Before compilation each such instruction is replaced by a call of a function, added to its module, that does the
//! same in slices with a check between two. It traps where the instruction would, and before it writes anything.
//!
//! Sections that have no part in this are copied byte for byte. The compiler refuses invalid input, and says why.

use std::ops::Range;

use wasm_encoder::{CodeSection, Encode, Function, InstructionSink, RawSection, Section as _};
use wasmparser::{BinaryReader, CodeSectionReader, ImportSectionReader, Operator, TypeRef};

use crate::load_error::LoadError;

/// Changes with the code that is added, so that code compiled before is not used.
pub(crate) const REVISION: u32 = 1;

/// Bytes of one slice: some microseconds, and so few that a check between two costs nothing that can be measured.
const SLICE_BYTES: i32 = 64 * 1024;

/// Deepest nesting of components.
const DEPTH_MAX: usize = 32;

/// Magic number and version.
const HEADER_BYTES: usize = 8;

const TYPE_SECTION: u8 = 1;
const IMPORT_SECTION: u8 = 2;
const FUNCTION_SECTION: u8 = 3;
const MEMORY_SECTION: u8 = 5;
const GLOBAL_SECTION: u8 = 6;
const CODE_SECTION: u8 = 10;
const DATA_SECTION: u8 = 11;
const DATA_COUNT_SECTION: u8 = 12;
/// Sections of a component.
const CUSTOM_SECTION: u8 = 0;
const CORE_MODULE_SECTION: u8 = 1;
const COMPONENT_SECTION: u8 = 4;

/// The type of the added functions: three `i32`, no result.
const FUNCTION_TYPE: [u8; 6] = [0x60, 3, 0x7f, 0x7f, 0x7f, 0];

type Result<T> = std::result::Result<T, LoadError>;

/// Returns the component with bulk memory operations in slices.
pub(crate) fn slice_bulk_memory(component: &[u8]) -> Result<Vec<u8>> {
    slice_component(component, 0)
}

fn slice_component(binary: &[u8], depth: usize) -> Result<Vec<u8>> {
    let mut sliced = binary.get(..HEADER_BYTES).unwrap_or(binary).to_vec();
    for Section { id, data } in read_sections(binary)? {
        match id {
            CORE_MODULE_SECTION => push_section(&mut sliced, id, &slice_module(data)?),
            COMPONENT_SECTION if depth == DEPTH_MAX => {
                return Err(LoadError::new(
                    "components are nested too deeply",
                    "link its components into one",
                ));
            }
            COMPONENT_SECTION => push_section(&mut sliced, id, &slice_component(data, depth + 1)?),
            _ => push_section(&mut sliced, id, data),
        }
    }
    Ok(sliced)
}

fn slice_module(binary: &[u8]) -> Result<Vec<u8>> {
    let sections = read_sections(binary)?;
    let data = |id| sections.iter().find(|section| section.id == id).map_or(&[][..], |section| section.data);
    let types = read_count(data(TYPE_SECTION))?.0;
    let functions = imported_functions(data(IMPORT_SECTION))? + read_count(data(FUNCTION_SECTION))?.0;
    let (code, operations) = slice_code(data(CODE_SECTION), functions)?;
    if operations.is_empty() {
        return Ok(binary.to_vec());
    }
    let mut sliced = binary[..HEADER_BYTES].to_vec();
    for Section { id, data } in &sections {
        match *id {
            TYPE_SECTION => push_section(&mut sliced, *id, &with_items(data, [&FUNCTION_TYPE[..]])?),
            FUNCTION_SECTION => {
                let mut index = Vec::new();
                types.encode(&mut index);
                push_section(&mut sliced, *id, &with_items(data, operations.iter().map(|_| &*index))?);
            }
            CODE_SECTION => {
                sliced.push(code.id());
                code.encode(&mut sliced);
            }
            _ => push_section(&mut sliced, *id, data),
        }
    }
    Ok(sliced)
}

struct Section<'a> {
    id: u8,
    data: &'a [u8],
}

fn read_sections(binary: &[u8]) -> Result<Vec<Section<'_>>> {
    let mut reader = BinaryReader::new(binary, 0);
    reader.read_bytes(HEADER_BYTES)?;
    let mut sections = Vec::new();
    while !reader.eof() {
        let id = reader.read_u8()?;
        let bytes = reader.read_var_u32()?;
        sections.push(Section { id, data: reader.read_bytes(usize::try_from(bytes).unwrap_or(usize::MAX))? });
    }
    Ok(sections)
}

/// Adds the sections of a component, those of its modules one by one and without the content of data, globals and memories.
pub(crate) fn sections_without_data<'a>(
    component: &'a [u8],
    depth: usize,
    found: &mut Vec<(u8, &'a [u8])>,
) -> Result<()> {
    const END: (u8, &[u8]) = (u8::MAX, &[]);
    for Section { id, data } in read_sections(component)? {
        match id {
            CORE_MODULE_SECTION => {
                found.push((id, &[]));
                found.extend(read_sections(data)?.into_iter().map(|Section { id, data }| match id {
                    MEMORY_SECTION | GLOBAL_SECTION | DATA_SECTION | DATA_COUNT_SECTION => (id, &[][..]),
                    _ => (id, data),
                }));
                found.push(END);
            }
            COMPONENT_SECTION if depth < DEPTH_MAX => {
                found.push((id, &[]));
                sections_without_data(data, depth + 1, found)?;
                found.push(END);
            }
            _ => found.push((id, data)),
        }
    }
    Ok(())
}

/// The data of the custom sections of a component with this name. Empty for a file that cannot be read.
pub(crate) fn custom_sections<'a>(component: &'a [u8], name: &str) -> Vec<&'a [u8]> {
    let sections = read_sections(component).unwrap_or_default().into_iter();
    let data = sections.filter(|section| section.id == CUSTOM_SECTION).filter_map(|section| {
        let mut reader = BinaryReader::new(section.data, 0);
        (reader.read_string().ok()? == name).then(|| section.data.get(reader.current_position()..))?
    });
    data.collect()
}

fn push_section(binary: &mut Vec<u8>, id: u8, data: &[u8]) {
    binary.push(id);
    RawSection { id, data }.encode(binary);
}

/// The number of items of a section, and the bytes of the items. A section that is not there has none.
fn read_count(section: &[u8]) -> Result<(u32, &[u8])> {
    if section.is_empty() {
        return Ok((0, section));
    }
    let mut reader = BinaryReader::new(section, 0);
    let count = reader.read_var_u32()?;
    Ok((count, &section[reader.current_position()..]))
}

/// A section with more items at its end.
fn with_items<'a>(section: &[u8], items: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>> {
    let (count, bytes) = read_count(section)?;
    let (mut added, mut more) = (0, Vec::new());
    for item in items {
        more.extend_from_slice(item);
        added += 1;
    }
    let mut longer = Vec::with_capacity(section.len() + more.len() + 1);
    count.saturating_add(added).encode(&mut longer);
    longer.extend_from_slice(bytes);
    longer.extend_from_slice(&more);
    Ok(longer)
}

fn imported_functions(section: &[u8]) -> Result<u32> {
    if section.is_empty() {
        return Ok(0);
    }
    let mut count = 0;
    for import in ImportSectionReader::new(BinaryReader::new(section, 0))?.into_imports() {
        count += u32::from(matches!(import?.ty, TypeRef::Func(_)));
    }
    Ok(count)
}

/// An operation that an added function carries out. Its operands are an address, a value or another address, and a length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Fill { memory: u32 },
    Copy { to: u32, from: u32 },
    Init { data: u32, memory: u32 },
}

impl Operation {
    fn of(operator: &Operator<'_>) -> Option<Self> {
        Some(match *operator {
            Operator::MemoryFill { mem } => Self::Fill { memory: mem },
            Operator::MemoryCopy { dst_mem, src_mem } => Self::Copy { to: dst_mem, from: src_mem },
            Operator::MemoryInit { data_index, mem } => Self::Init { data: data_index, memory: mem },
            _ => return None,
        })
    }
}

/// Replaces the operations by calls. `functions` is the index of the first added function.
fn slice_code(section: &[u8], functions: u32) -> Result<(CodeSection, Vec<Operation>)> {
    let (mut code, mut operations) = (CodeSection::new(), Vec::new());
    if section.is_empty() {
        return Ok((code, operations));
    }
    for body in CodeSectionReader::new(BinaryReader::new(section, 0))? {
        let body = body?;
        let Range { start: mut copied, end } = body.range();
        let mut sliced = Vec::with_capacity(end - copied);
        let mut operators = body.get_operators_reader()?;
        let mut is_short = false;
        while !operators.eof() {
            let start = operators.original_position();
            let operator = operators.read()?;
            // A constant length comes right before its operation.
            let was_short = std::mem::replace(
                &mut is_short,
                matches!(operator, Operator::I32Const { value: 0..=SLICE_BYTES }),
            );
            let Some(operation) = Operation::of(&operator).filter(|_| !was_short) else { continue };
            let at = operations.iter().position(|known| *known == operation).unwrap_or_else(|| {
                operations.push(operation);
                operations.len() - 1
            });
            sliced.extend_from_slice(&section[copied..start]);
            InstructionSink::new(&mut sliced)
                .call(functions.saturating_add(u32::try_from(at).unwrap_or(u32::MAX)));
            copied = operators.original_position();
        }
        sliced.extend_from_slice(&section[copied..end]);
        code.raw(&sliced);
    }
    for operation in &operations {
        code.function(&operation.in_slices());
    }
    Ok((code, operations))
}

/// The parameters of an added function.
const TO: u32 = 0;
const FROM: u32 = 1;
const LENGTH: u32 = 2;

impl Operation {
    /// Whether the second operand is an address.
    fn has_source(self) -> bool {
        !matches!(self, Self::Fill { .. })
    }

    /// The function that carries the operation out in slices.
    fn in_slices(self) -> Function {
        let mut function = Function::new([]);
        let mut code = function.instructions();
        code.local_get(LENGTH).i32_const(SLICE_BYTES).i32_le_u();
        self.push_whole_if(&mut code);
        // An end that wraps around is out of bounds.
        push_end(&mut code, TO);
        code.local_get(TO).i32_lt_u();
        self.push_whole_if(&mut code);
        if self.has_source() {
            push_end(&mut code, FROM);
            code.local_get(FROM).i32_lt_u();
            self.push_whole_if(&mut code);
        }
        // Nothing of the length 0 at the end traps where the whole would.
        push_end(&mut code, TO);
        if self.has_source() {
            push_end(&mut code, FROM);
        } else {
            code.local_get(FROM);
        }
        code.i32_const(0);
        self.push(&mut code);
        if matches!(self, Self::Copy { .. }) {
            self.push_backward_if_needed(&mut code);
        }
        code.loop_(wasm_encoder::BlockType::Empty);
        code.local_get(TO).local_get(FROM).i32_const(SLICE_BYTES);
        self.push(&mut code);
        code.local_get(TO).i32_const(SLICE_BYTES).i32_add().local_set(TO);
        if self.has_source() {
            code.local_get(FROM).i32_const(SLICE_BYTES).i32_add().local_set(FROM);
        }
        push_shortened_length(&mut code);
        code.br_if(0).end();
        self.push_whole(&mut code);
        code.end();
        function
    }

    /// Copies from the end where the areas may overlap and the source comes first.
    fn push_backward_if_needed(self, code: &mut InstructionSink<'_>) {
        code.local_get(TO).local_get(FROM).i32_gt_u().if_(wasm_encoder::BlockType::Empty);
        code.loop_(wasm_encoder::BlockType::Empty);
        push_shortened_length(code);
        push_end(code, TO);
        push_end(code, FROM);
        code.i32_const(SLICE_BYTES);
        self.push(code);
        code.br_if(0).end();
        self.push_whole(code);
        code.return_().end();
    }

    fn push_whole_if(self, code: &mut InstructionSink<'_>) {
        code.if_(wasm_encoder::BlockType::Empty);
        self.push_whole(code);
        code.return_().end();
    }

    fn push_whole(self, code: &mut InstructionSink<'_>) {
        code.local_get(TO).local_get(FROM).local_get(LENGTH);
        self.push(code);
    }

    fn push(self, code: &mut InstructionSink<'_>) {
        match self {
            Self::Fill { memory } => code.memory_fill(memory),
            Self::Copy { to, from } => code.memory_copy(to, from),
            Self::Init { data, memory } => code.memory_init(memory, data),
        };
    }
}

fn push_end(code: &mut InstructionSink<'_>, address: u32) {
    code.local_get(address).local_get(LENGTH).i32_add();
}

/// Subtracts a slice from the length, and leaves on the stack whether more than one slice is left.
fn push_shortened_length(code: &mut InstructionSink<'_>) {
    code.local_get(LENGTH).i32_const(SLICE_BYTES).i32_sub().local_tee(LENGTH);
    code.i32_const(SLICE_BYTES).i32_gt_u();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use wasmtime::{Config, Engine, Instance, Memory, Module, Store, TypedFunc};

    use super::*;

    const SLICE: u32 = SLICE_BYTES as u32;
    const MEMORY: u32 = 5 * SLICE;
    const DATA: u32 = 2 * SLICE + 9;

    /// A module with each operation, and with data of its own for `init`.
    fn module() -> Vec<u8> {
        let data: String = (0..DATA).map(|at| format!("\\{:02x}", at % 251)).collect();
        let text = format!(
            r#"(module (import "m" "unused" (func)) (memory (export "memory") 5) (data "{data}")
                (func (export "fill") (param i32 i32 i32) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
                (func (export "copy") (param i32 i32 i32) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
                (func (export "init") (param i32 i32 i32) (memory.init 0 (local.get 0) (local.get 1) (local.get 2)))
                (func (export "short") (memory.fill (i32.const 1) (i32.const 2) (i32.const 3))))"#
        );
        wat::parse_str(text).expect("a module")
    }

    struct Running {
        store: Store<()>,
        instance: Instance,
        memory: Memory,
    }

    impl Running {
        fn start(engine: &Engine, binary: &[u8]) -> Self {
            let module = Module::new(engine, binary).expect("a valid module");
            let mut store = Store::new(engine, ());
            store.set_fuel(u64::MAX).expect("fuel");
            let unused = wasmtime::Func::wrap(&mut store, || {});
            let instance = Instance::new(&mut store, &module, &[unused.into()]).expect("an instance");
            let memory = instance.get_memory(&mut store, "memory").expect("a memory");
            Self { store, instance, memory }
        }

        fn set(&mut self, content: &[u8]) {
            self.memory.write(&mut self.store, 0, content).expect("the memory");
        }

        /// Returns whether the operation ended.
        fn run(&mut self, name: &str, operands: (u32, u32, u32)) -> bool {
            let function: TypedFunc<(u32, u32, u32), ()> =
                self.instance.get_typed_func(&mut self.store, name).expect("a function");
            function.call(&mut self.store, operands).is_ok()
        }
    }

    #[test]
    fn s3_sliced_operations_do_what_whole_ones_do() {
        let engine = Engine::new(Config::new().consume_fuel(true)).expect("an engine");
        let binary = module();
        let sliced = slice_module(&binary).expect("a module");
        assert_ne!(sliced, binary);
        let (mut whole, mut slices) = (Running::start(&engine, &binary), Running::start(&engine, &sliced));
        let content: Vec<u8> =
            (0..MEMORY).map(|at| (at / 7).to_le_bytes()[0] ^ at.to_le_bytes()[0]).collect();
        let addresses = [0, 9, SLICE + 3, MEMORY - 2, u32::MAX - SLICE, u32::MAX];
        let lengths = [SLICE + 1, DATA, 3 * SLICE - 1, MEMORY - 1, MEMORY + 1, u32::MAX];
        let (mut ends, mut traps) = (0, 0);
        for name in ["fill", "copy", "init"] {
            for to in addresses {
                for from in addresses {
                    for length in lengths {
                        let operands = (to, from, length);
                        for running in [&mut whole, &mut slices] {
                            running.set(&content);
                        }
                        let (expected, found) = (whole.run(name, operands), slices.run(name, operands));
                        assert_eq!(expected, found, "{name} {operands:?}");
                        let is_same = whole.memory.data(&whole.store) == slices.memory.data(&slices.store);
                        assert!(is_same, "{name} {operands:?}");
                        match found {
                            true => ends += 1,
                            false => traps += 1,
                        }
                    }
                }
            }
        }
        assert!(ends > 50 && traps > 50, "{ends} ended, {traps} trapped");
    }

    #[test]
    fn s3_a_long_operation_is_interrupted_between_two_slices() {
        let engine =
            Engine::new(Config::new().epoch_interruption(true).consume_fuel(true)).expect("an engine");
        let binary = module();
        let checks = |binary: &[u8]| {
            let mut running = Running::start(&engine, binary);
            let seen = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&seen);
            running.store.epoch_deadline_callback(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
                Ok(wasmtime::UpdateDeadline::Continue(0))
            });
            assert!(running.run("fill", (0, 7, MEMORY)));
            seen.load(Ordering::Relaxed)
        };
        let (whole, sliced) = (checks(&binary), checks(&slice_module(&binary).expect("a module")));
        assert!(sliced >= whole + MEMORY / SLICE - 1, "{whole} checks, {sliced} with slices");
    }

    #[test]
    fn what_has_no_bulk_operation_stays_byte_for_byte() {
        let plain =
            wat::parse_str("(component (core module (func (result i32) i32.const 1)))").expect("a component");
        assert_eq!(slice_bulk_memory(&plain).expect("a component"), plain);
        let nested = wat::parse_str(
            "(component (component (core module (memory 1) (func (param i32) (memory.fill (local.get 0) (local.get 0) (local.get 0))))))",
        );
        let nested = nested.expect("a component");
        assert_ne!(slice_bulk_memory(&nested).expect("a component"), nested);
    }

    #[test]
    fn bytes_that_are_no_component_are_refused() {
        let binary = module();
        for length in 0..binary.len().min(400) {
            let _ = slice_module(&binary[..length]);
            let _ = slice_bulk_memory(&binary[..length]);
        }
        assert!(slice_bulk_memory(b"\0asm").is_err());
        let deep = (0..40).fold(String::from("(component)"), |inner, _| format!("(component {inner})"));
        assert!(slice_bulk_memory(&wat::parse_str(deep).expect("components")).is_err());
    }
}
