//! The attribute `optional_fields` of `toolgate-api`, and `boxed` of the crates whose functions others await.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod boxed;

use proc_macro::TokenStream;
use quote::{ToTokens, quote};
use syn::{
    Data, DeriveInput, Error, Field, GenericArgument, Item, Meta, PathArguments, Type, parse_macro_input,
    parse_quote,
};

/// Leaves each `Option` field of a struct out of the JSON where it is `None`, and describes it as not required and not
/// nullable. A field with `#[schema(required)]` is unchanged: its `None` is written as `null`.
///
/// A field keeps its own `#[schema(value_type = …)]`. The attribute stands above the derives that read what it adds.
#[proc_macro_attribute]
pub fn optional_fields(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as DeriveInput);
    match &mut item.data {
        Data::Struct(data) => data.fields.iter_mut().for_each(annotate),
        Data::Enum(_) | Data::Union(_) => {
            let error = Error::new_spanned(&item.ident, "`optional_fields` supports structs alone")
                .to_compile_error();
            return quote!(#error #item).into();
        }
    }
    item.into_token_stream().into()
}

/// Makes a `pub async fn`, or each one of an `impl`, return its future in a box. A generic function is unchanged.
///
/// The body of an asynchronous function is compiled in each crate and each codegen unit that awaits it, together with the bodies
/// that it awaits. A boxed body is compiled in its own crate alone, so that the crates above build faster. Each call allocates.
#[proc_macro_attribute]
pub fn boxed(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as Item);
    boxed::box_futures(&mut item);
    item.into_token_stream().into()
}

fn annotate(field: &mut Field) {
    let Some(value_type) = option_argument(&field.ty).cloned() else { return };
    if has_schema_option(field, "required") {
        return;
    }
    if !has_schema_option(field, "value_type") {
        field.attrs.push(parse_quote!(#[schema(value_type = #value_type)]));
    }
    field.attrs.push(parse_quote!(#[serde(skip_serializing_if = "Option::is_none")]));
}

/// The `T` of an `Option<T>`.
fn option_argument(field_type: &Type) -> Option<&Type> {
    let Type::Path(path) = field_type else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(argument) => Some(argument),
        _ => None,
    }
}

fn has_schema_option(field: &Field, name: &str) -> bool {
    field.attrs.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("schema") => {
            list.tokens.clone().into_iter().any(|token| token.to_string() == name)
        }
        _ => false,
    })
}
