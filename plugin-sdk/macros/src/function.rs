//! Parses the function under `#[tool]`: its documentation, parameters and return type.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, Ident, ItemFn, Lit, Meta, Pat, PatType,
    PathArguments, ReturnType, Safety, Signature, Token, Type, Visibility,
};

use crate::docs::{Docs, is_doc};

const FROM_TEXT: &str = "`Error::new(\"what went wrong, and what to do next\")` makes one from a text";

/// A function that is a tool.
pub struct Function {
    /// The function without the attributes that only this macro knows.
    pub item: ItemFn,
    pub docs: Option<Docs>,
    pub inputs: Vec<Input>,
    pub output: Output,
}

/// A parameter of the function.
pub enum Input {
    Parameter(Box<Parameter>),
    /// `&Context`, which the call provides; the model does not see it.
    Context,
}

/// A parameter that the model fills.
pub struct Parameter {
    pub ident: Ident,
    pub ty: Type,
    /// The doc comment; empty if it is missing.
    pub text: String,
    pub default: Option<ParameterDefault>,
    /// Attributes of serde and schemars, for the field that represents the parameter.
    pub forwarded: Vec<Attribute>,
}

/// The value of a parameter that the model omits.
pub enum ParameterDefault {
    OfType,
    Value(Box<Expr>),
}

/// The return type.
pub struct Output {
    pub ty: Type,
    /// Spans for errors about the success and failure types: `T` and `E` of a literal `Result<T, E>`.
    pub value: Span,
    pub failure: Span,
}

impl Function {
    /// Parses the function. All mistakes are added to `errors` at once.
    pub fn read(mut item: ItemFn, errors: &mut Errors) -> Self {
        check_signature(&item.sig, cfg!(feature = "async"), errors);
        let tool = item.sig.ident.clone();
        let docs = read_docs(&item.attrs, tool.span(), errors, || {
            format!(
                "tool `{tool}` needs a doc comment: write `/// What it does` above it, for the model that chooses"
            )
        });
        let inputs =
            item.sig.inputs.iter_mut().filter_map(|input| read_input(input, &tool, errors)).collect();
        let output = read_output(&item.sig.output, errors);
        Self { item, docs, inputs, output }
    }

    pub fn ident(&self) -> &Ident {
        &self.item.sig.ident
    }

    pub fn visibility(&self) -> &Visibility {
        &self.item.vis
    }

    pub fn is_async(&self) -> bool {
        self.item.sig.asyncness.is_some()
    }

    /// Whether a parameter is flattened: its fields are arguments themselves.
    pub fn is_flattened(&self) -> bool {
        self.parameters().any(Parameter::is_flattened)
    }

    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.inputs.iter().filter_map(|input| match input {
            Input::Parameter(parameter) => Some(&**parameter),
            Input::Context => None,
        })
    }
}

impl Parameter {
    /// The name of the argument.
    pub fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// Whether serde gives it other argument names, which only serde knows.
    pub fn is_renamed(&self) -> bool {
        self.is_flattened() || self.has_serde_setting("rename")
    }

    fn is_flattened(&self) -> bool {
        self.has_serde_setting("flatten")
    }

    fn has_serde_setting(&self, name: &str) -> bool {
        self.forwarded.iter().flat_map(metas).any(|meta| meta.path().is_ident(name))
    }
}

/// The settings in an attribute of serde or schemars, which report syntax errors themselves.
fn metas(attribute: &Attribute) -> impl Iterator<Item = Meta> + use<> {
    let metas = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    metas.unwrap_or_default().into_iter()
}

/// The mistakes found so far.
#[derive(Default)]
pub struct Errors(Option<Error>);

impl Errors {
    pub fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value, or records the error.
    pub fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl ToTokens for Errors {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.0.as_ref().map(Error::to_compile_error));
    }
}

/// Reads the required doc comment.
fn read_docs(
    attributes: &[Attribute],
    place: Span,
    errors: &mut Errors,
    missing: impl FnOnce() -> String,
) -> Option<Docs> {
    let docs = errors.take(Docs::read(attributes))?;
    if docs.is_none() {
        errors.push(Error::new(place, missing()));
    }
    docs
}

fn check_signature(signature: &Signature, may_be_async: bool, errors: &mut Errors) {
    let mut refuse = |span: Span, message: &str| errors.push(Error::new(span, message));
    if let (Some(token), false) = (&signature.asyncness, may_be_async) {
        refuse(
            token.span(),
            "an `async` tool needs a feature of the SDK: write `toolgate-sdk = { .., features = [\"async\"] }`",
        );
    }
    if !signature.generics.params.is_empty() {
        refuse(signature.generics.span(), "a tool cannot be generic: write the types that a model can send");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        refuse(token.span(), "a tool cannot be `unsafe`: a model can call it with any arguments");
    }
    if let Some(token) = &signature.abi {
        refuse(token.span(), "a tool is a plain Rust function: leave `extern` out");
    }
    if let Some(token) = &signature.variadic {
        refuse(token.span(), "a tool has a fixed number of parameters: take a `Vec`");
    }
}

fn read_input(input: &mut FnArg, tool: &Ident, errors: &mut Errors) -> Option<Input> {
    let typed = match input {
        FnArg::Typed(typed) => typed,
        FnArg::Receiver(receiver) => {
            errors.push(Error::new(
                receiver.span(),
                "a tool is a free function: no state is kept between calls, so it has no `self`",
            ));
            return None;
        }
    };
    if is_context(&typed.ty, errors) {
        // The model does not see this parameter, so its doc comment is for readers of the code only.
        typed.attrs.retain(|attribute| !is_doc(attribute));
        return Some(Input::Context);
    }
    read_parameter(typed, tool, errors).map(|parameter| Input::Parameter(Box::new(parameter)))
}

fn read_parameter(typed: &mut PatType, tool: &Ident, errors: &mut Errors) -> Option<Parameter> {
    let attributes = take_attributes(&mut typed.attrs, errors);
    let ident = match &*typed.pat {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => pattern.ident.clone(),
        other => {
            errors.push(Error::new(
                other.span(),
                "a parameter of a tool needs a name: write `name: Type` and destructure it inside",
            ));
            return None;
        }
    };
    if attributes.docs.is_empty() && is_context_type(&typed.ty) {
        errors.push(Error::new(typed.ty.span(), "a tool borrows the context of a call: write `&Context`"));
        return None;
    }
    let docs = read_docs(&attributes.docs, ident.span(), errors, || {
        format!(
            "parameter `{}` of tool `{tool}` needs a doc comment: write `/// What it means` above it, for the model that fills it",
            ident.unraw()
        )
    });
    check_parameter_type(&typed.ty, &ident, errors);
    let default = attributes.default.and_then(|attribute| errors.take(read_default(&attribute)));
    Some(Parameter {
        ident,
        ty: (*typed.ty).clone(),
        text: docs.map(|docs| docs.text()).unwrap_or_default(),
        default,
        forwarded: attributes.forwarded,
    })
}

/// The attributes of a parameter that this macro handles. Rust allows none of them there.
struct ParameterAttributes {
    docs: Vec<Attribute>,
    default: Option<Attribute>,
    forwarded: Vec<Attribute>,
}

fn take_attributes(attributes: &mut Vec<Attribute>, errors: &mut Errors) -> ParameterAttributes {
    let mut taken = ParameterAttributes { docs: Vec::new(), default: None, forwarded: Vec::new() };
    for attribute in std::mem::take(attributes) {
        let path = attribute.path();
        if is_doc(&attribute) {
            taken.docs.push(attribute);
        } else if path.is_ident("default") {
            if taken.default.is_some() {
                errors.push(Error::new(attribute.span(), "`default` is set twice"));
            }
            taken.default = Some(attribute);
        } else if path.is_ident("serde") || path.is_ident("schemars") {
            check_forwarded(&attribute, errors);
            taken.forwarded.push(attribute);
        } else {
            attributes.push(attribute);
        }
    }
    taken
}

/// Refuses `alias`: serde would accept it, but the schema does not have it, so the host refuses such calls.
fn check_forwarded(attribute: &Attribute, errors: &mut Errors) {
    for meta in metas(attribute).filter(|meta| meta.path().is_ident("alias")) {
        let message = "an argument has one name, the one in its schema: leave `alias` out, and to use another name than the parameter's write `#[serde(rename = \"..\")]`";
        errors.push(Error::new(meta.span(), message));
    }
}

fn read_default(attribute: &Attribute) -> syn::Result<ParameterDefault> {
    match &attribute.meta {
        Meta::Path(_) => Ok(ParameterDefault::OfType),
        Meta::List(list) => match list.parse_args() {
            Ok(value) => Ok(ParameterDefault::Value(Box::new(convert_text(value)))),
            Err(error) => {
                Err(Error::new(error.span(), "a parameter has one default: write it as `#[default(10)]`"))
            }
        },
        Meta::NameValue(pair) => Ok(ParameterDefault::Value(Box::new(convert_text(pair.value.clone())))),
    }
}

/// Converts a text literal into the parameter's type, like `String`.
fn convert_text(value: Expr) -> Expr {
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => {
            syn::parse_quote_spanned!(value.span()=> ::core::convert::Into::into(#value))
        }
        _ => value,
    }
}

fn check_parameter_type(ty: &Type, parameter: &Ident, errors: &mut Errors) {
    let parameter = parameter.unraw();
    let message = match ty {
        Type::Infer(_) => format!(
            "parameter `{parameter}` needs a type: write what the model must send, as `String` or `u32`"
        ),
        Type::Reference(reference) => {
            let owned = match reference.elem.to_token_stream().to_string().as_str() {
                "str" => "String".to_owned(),
                "[u8]" => "Vec<u8>".to_owned(),
                other => other.to_owned(),
            };
            format!("parameter `{parameter}` must own its value: write `{owned}` instead of a reference")
        }
        Type::ImplTrait(_) => {
            format!("parameter `{parameter}` needs a concrete type: write it instead of `impl`")
        }
        _ => return,
    };
    errors.push(Error::new(ty.span(), message));
}

/// Whether the type is `&Context`; `&mut Context` is an error.
fn is_context(ty: &Type, errors: &mut Errors) -> bool {
    let Type::Reference(reference) = ty else { return false };
    let is_context = is_context_type(&reference.elem);
    if let (true, Some(_)) = (is_context, &reference.mutability) {
        errors.push(Error::new(ty.span(), "the context of a call does not change: write `&Context`"));
    }
    is_context
}

fn is_context_type(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|segment| segment.ident == "Context"),
        _ => false,
    }
}

fn read_output(output: &ReturnType, errors: &mut Errors) -> Output {
    let ty: Type = match output {
        ReturnType::Default => syn::parse_quote!(()),
        ReturnType::Type(_, ty) => (**ty).clone(),
    };
    let (value, failure) = result_types(&ty).unwrap_or((&ty, None));
    if let Type::ImplTrait(_) | Type::Reference(_) | Type::Infer(_) = value {
        let message = "the result of a tool needs an owned type: write it, and derive `Serialize` and `JsonSchema` for it";
        errors.push(Error::new(value.span(), message));
    }
    if let Some(failure) = failure {
        check_failure(failure, errors);
    }
    let (value, failure) = (value.span(), failure.map_or(ty.span(), Spanned::span));
    Output { ty, value, failure }
}

/// Refuses types that do not convert into `toolgate_sdk::Error`. Other types, and aliases, are left to the compiler.
fn check_failure(ty: &Type, errors: &mut Errors) {
    let is_named = |path: &syn::Path, names: &[&str]| {
        path.segments.last().is_some_and(|segment| names.iter().any(|name| segment.ident == *name))
    };
    let advice = match ty {
        Type::Path(path) if is_named(&path.path, &["String", "Cow"]) => FROM_TEXT,
        Type::Reference(_) => FROM_TEXT,
        Type::Tuple(tuple) if tuple.elems.is_empty() => FROM_TEXT,
        Type::Path(path) if is_named(&path.path, &["Box"]) => "`?` converts any error into one",
        _ => return,
    };
    let message =
        format!("a tool fails with `toolgate_sdk::Error`, which the model reads: use it here; {advice}");
    errors.push(Error::new(ty.span(), message));
}

/// The `T` and the `E` of a `Result<T, E>`, with any path before `Result`.
fn result_types(ty: &Type) -> Option<(&Type, Option<&Type>)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(value) => Some(value),
        _ => None,
    });
    Some((types.next()?, types.next()))
}

/// `Some(tokens)` or `None`, as generated code.
pub fn option(tokens: Option<impl ToTokens>) -> TokenStream {
    match tokens {
        Some(tokens) => quote!(::core::option::Option::Some(#tokens)),
        None => quote!(::core::option::Option::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo unifies features in a workspace, so no build of it is without `async`.
    #[test]
    fn t2_an_async_tool_without_the_feature_is_refused_with_its_name() {
        let error_text = |may_be_async| {
            let mut errors = Errors::default();
            check_signature(&syn::parse_quote!(async fn wait()), may_be_async, &mut errors);
            errors.0.map(|error| error.to_string())
        };

        let message = error_text(false).unwrap();
        assert!(message.contains("write `toolgate-sdk = { .., features = [\"async\"] }`"), "{message}");
        assert_eq!(error_text(true), None);
    }
}
