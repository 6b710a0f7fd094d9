//! The return type of a tool's function: a value, or a `Result` of one.
//!
//! A macro only sees tokens, and `Fallible<u8>` could be any type, so method resolution decides (autoref-free
//! specialization): for a `Result`, also behind an alias, the inherent functions of [`ToolReturn`] take precedence, and for
//! all other types those of the trait [`PlainReturn`] apply.

use std::marker::PhantomData;

use schemars::{JsonSchema, Schema};

use crate::{Error, schema};

pub struct ToolReturn<T>(PhantomData<T>);

impl<T, E> ToolReturn<Result<T, E>> {
    /// The value, or the error for the model.
    pub fn into_result(returned: Result<T, E>) -> Result<T, Error>
    where
        E: Failure,
    {
        returned.map_err(E::into_error)
    }

    pub fn schema() -> Schema
    where
        T: JsonSchema,
    {
        schema::result::<T>()
    }
}

/// A return type other than `Result`.
pub trait PlainReturn {
    type Value;

    fn into_result(returned: Self::Value) -> Result<Self::Value, Error>;

    fn schema() -> Schema
    where
        Self::Value: JsonSchema;
}

impl<T> PlainReturn for ToolReturn<T> {
    type Value = T;

    fn into_result(returned: T) -> Result<T, Error> {
        Ok(returned)
    }

    fn schema() -> Schema
    where
        T: JsonSchema,
    {
        schema::result::<T>()
    }
}

/// A type that a tool can fail with.
#[diagnostic::on_unimplemented(
    message = "a tool fails with `toolgate_sdk::Error`, which the model reads: use it in place of `{Self}`",
    label = "not an error for a model to read",
    note = "`Error::new(\"what went wrong, and what to do next\")` makes one from a text, and `?` from any `std::error::Error`"
)]
pub trait Failure {
    fn into_error(self) -> Error;
}

impl Failure for Error {
    fn into_error(self) -> Error {
        self
    }
}

#[diagnostic::do_not_recommend]
impl<E: std::error::Error + 'static> Failure for E {
    fn into_error(self) -> Error {
        self.into()
    }
}
