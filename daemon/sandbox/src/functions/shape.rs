//! The type of a parameter or result, read once at load. Its depth and its parts are bounded, since the types of a component share
//! their parts: forty tuples of two can stand for a million million values.

use wasmtime::component::Type;

/// Deepest nesting of a type. A level takes at most two subschemas, of which a schema may have 32 inside each other.
const DEPTH: usize = 12;

/// Most parts of the types of one function: types, and cases of enums and flags.
pub(super) const FUNCTION_PARTS: usize = 1_000;

/// A WIT type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Bool,
    Integer(Integer),
    Float32,
    Float64,
    Char,
    String,
    List(Box<Shape>),
    Record(Vec<(Box<str>, Shape)>),
    Tuple(Vec<Shape>),
    /// Each case with its payload, if it has one.
    Variant(Vec<(Box<str>, Option<Shape>)>),
    Enum(Vec<Box<str>>),
    Flags(Vec<Box<str>>),
    Option(Box<Shape>),
    Result(Option<Box<Shape>>, Option<Box<Shape>>),
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    S8,
    U8,
    S16,
    U16,
    S32,
    U32,
    S64,
    U64,
}

impl Integer {
    /// The least and the greatest value.
    pub(super) fn range(self) -> (i64, u64) {
        match self {
            Self::S8 => (i8::MIN.into(), 0x7f),
            Self::U8 => (0, u8::MAX.into()),
            Self::S16 => (i16::MIN.into(), 0x7fff),
            Self::U16 => (0, u16::MAX.into()),
            Self::S32 => (i32::MIN.into(), 0x7fff_ffff),
            Self::U32 => (0, u32::MAX.into()),
            Self::S64 => (i64::MIN, i64::MAX.unsigned_abs()),
            Self::U64 => (0, u64::MAX),
        }
    }

    /// The name in WIT.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::S8 => "s8",
            Self::U8 => "u8",
            Self::S16 => "s16",
            Self::U16 => "u16",
            Self::S32 => "s32",
            Self::U32 => "u32",
            Self::S64 => "s64",
            Self::U64 => "u64",
        }
    }
}

/// Reads the types of one function.
pub(super) struct ShapeReader {
    parts_left: usize,
    depth_left: usize,
}

impl ShapeReader {
    pub(super) fn new() -> Self {
        Self { parts_left: FUNCTION_PARTS, depth_left: DEPTH }
    }

    /// The parts that were read.
    pub(super) fn parts(&self) -> usize {
        FUNCTION_PARTS.saturating_sub(self.parts_left)
    }

    /// Reads a type, or returns the reason why no tool can have it.
    pub(super) fn read(&mut self, kind: &Type) -> Result<Shape, String> {
        self.take(1)?;
        self.depth_left = self
            .depth_left
            .checked_sub(1)
            .ok_or_else(|| format!("its types are nested more than {DEPTH} levels deep"))?;
        let shape = self.read_kind(kind)?;
        self.depth_left += 1;
        Ok(shape)
    }

    fn read_kind(&mut self, kind: &Type) -> Result<Shape, String> {
        Ok(match kind {
            Type::Bool => Shape::Bool,
            Type::S8 => Shape::Integer(Integer::S8),
            Type::U8 => Shape::Integer(Integer::U8),
            Type::S16 => Shape::Integer(Integer::S16),
            Type::U16 => Shape::Integer(Integer::U16),
            Type::S32 => Shape::Integer(Integer::S32),
            Type::U32 => Shape::Integer(Integer::U32),
            Type::S64 => Shape::Integer(Integer::S64),
            Type::U64 => Shape::Integer(Integer::U64),
            Type::Float32 => Shape::Float32,
            Type::Float64 => Shape::Float64,
            Type::Char => Shape::Char,
            Type::String => Shape::String,
            Type::List(list) => Shape::List(Box::new(self.read(&list.ty())?)),
            Type::Record(record) => {
                let fields = record.fields().map(|field| Ok((field.name.into(), self.read(&field.ty)?)));
                Shape::Record(fields.collect::<Result<_, String>>()?)
            }
            Type::Tuple(tuple) => {
                Shape::Tuple(tuple.types().map(|kind| self.read(&kind)).collect::<Result<_, _>>()?)
            }
            Type::Variant(variant) => {
                let mut cases = Vec::new();
                for case in variant.cases() {
                    self.take(1)?;
                    cases.push((case.name.into(), self.read_payload(case.ty)?));
                }
                Shape::Variant(cases)
            }
            Type::Enum(kind) => Shape::Enum(self.read_names(kind.names())?),
            Type::Flags(kind) => Shape::Flags(self.read_names(kind.names())?),
            Type::Option(option) => Shape::Option(Box::new(self.read(&option.ty())?)),
            Type::Result(result) => {
                let (ok, err) = (self.read_payload(result.ok())?, self.read_payload(result.err())?);
                Shape::Result(ok.map(Box::new), err.map(Box::new))
            }
            other => return Err(format!("its signature has {}, which JSON cannot carry", name_of(other))),
        })
    }

    fn read_payload(&mut self, kind: Option<Type>) -> Result<Option<Shape>, String> {
        kind.map(|kind| self.read(&kind)).transpose()
    }

    fn read_names<'a>(
        &mut self,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Result<Vec<Box<str>>, String> {
        self.take(names.len())?;
        Ok(names.map(Box::from).collect())
    }

    fn take(&mut self, parts: usize) -> Result<(), String> {
        self.parts_left = self
            .parts_left
            .checked_sub(parts)
            .ok_or_else(|| format!("its types have more than {FUNCTION_PARTS} parts"))?;
        Ok(())
    }
}

/// The name of a type that no tool can have.
fn name_of(kind: &Type) -> &'static str {
    match kind {
        Type::Own(_) | Type::Borrow(_) => "the handle of a resource",
        Type::Future(_) => "a future",
        Type::Stream(_) => "a stream",
        Type::ErrorContext => "an error context",
        _ => "a type that this host does not know",
    }
}
