//! What a tool's function gives, whatever its author calls the type: a value, or a `Result` of one.
//!
//! A macro sees tokens, and `Fallible<u8>` may be any type. So the compiler decides: for a `Result`, also behind an alias,
//! the functions of [`Given`] itself are found first, and for all other types those of [`GivenAsIs`].

use std::marker::PhantomData;

use schemars::{JsonSchema, Schema};

use crate::{Error, schema};

/// The type that the function gives.
pub struct Given<T>(PhantomData<T>);

impl<T, E> Given<Result<T, E>> {
    /// The value, or the failure for the model.
    pub fn settle(given: Result<T, E>) -> Result<T, Error>
    where
        E: Failure,
    {
        given.map_err(E::into_error)
    }

    /// The schema of the value.
    pub fn schema() -> Schema
    where
        T: JsonSchema,
    {
        schema::result::<T>()
    }
}

/// A type that is no `Result`: the value itself.
pub trait GivenAsIs {
    type Value;

    fn settle(given: Self::Value) -> Result<Self::Value, Error>;

    fn schema() -> Schema
    where
        Self::Value: JsonSchema;
}

impl<T> GivenAsIs for Given<T> {
    type Value = T;

    fn settle(given: T) -> Result<T, Error> {
        Ok(given)
    }

    fn schema() -> Schema
    where
        T: JsonSchema,
    {
        schema::result::<T>()
    }
}

/// What a tool may fail with.
#[diagnostic::on_unimplemented(
    message = "a tool fails with `toolgate_sdk::Error`, which a model is told: write it in place of `{Self}`",
    label = "no failure for a model to read",
    note = "`Error::new(\"what went wrong, and what to do next\")` makes one of a text, and `?` of any `std::error::Error`"
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
