//! Reads the function under `#[tool]`: its documentation, its parameters, and what it gives.

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

/// How to make a failure where there is only a text.
const MADE_OF_TEXT: &str = "`Error::new(\"what went wrong, and what to do next\")` makes one of a text";

/// A function that can be a tool.
pub struct Function {
    /// The function without what only the attribute understands.
    pub item: ItemFn,
    pub docs: Option<Docs>,
    pub inputs: Vec<Input>,
    pub output: Output,
}

/// One of the function's parameters.
pub enum Input {
    Parameter(Box<Parameter>),
    /// `&Context`: given by the call, unknown to the model.
    Context,
}

/// A parameter that the model fills.
pub struct Parameter {
    pub ident: Ident,
    pub ty: Type,
    /// The doc comment, empty where it is missing.
    pub text: String,
    pub default: Option<ParameterDefault>,
    /// Attributes of serde and schemars, for the field that the parameter becomes.
    pub passed_on: Vec<Attribute>,
}

/// What the parameter is when the model leaves it out.
pub enum ParameterDefault {
    OfType,
    Value(Box<Expr>),
}

/// What the function gives.
pub struct Output {
    pub ty: Type,
    /// Where it says what comes of success, and of failure: `T` and `E` of a `Result<T, E>` that is written out.
    pub value: Span,
    pub failure: Span,
}

impl Function {
    /// Reads the function. Whatever is wrong with it is added to `errors`, all at once.
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

    /// Whether the fields of a parameter are arguments themselves.
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
    /// The name that the model uses.
    pub fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// Whether serde gives it other names than its own, which only serde knows.
    pub fn is_renamed(&self) -> bool {
        self.is_flattened() || self.words().any(|word| word.path().is_ident("rename"))
    }

    fn is_flattened(&self) -> bool {
        self.words().any(|word| word.path().is_ident("flatten"))
    }

    fn words(&self) -> impl Iterator<Item = Meta> {
        self.passed_on.iter().flat_map(words_of)
    }
}

/// What stands in an attribute of serde or schemars. What cannot be read they refuse themselves.
fn words_of(attribute: &Attribute) -> impl Iterator<Item = Meta> + use<> {
    let words = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    words.unwrap_or_default().into_iter()
}

/// What is wrong so far.
#[derive(Default)]
pub struct Errors(Option<Error>);

impl Errors {
    pub fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Keeps the value, or the error.
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

/// The doc comment, which must be there.
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
        refuse(token.span(), "a tool cannot be `unsafe`: a model calls it with whatever it likes");
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
                "a tool is a free function: nothing is kept between calls that `self` could hold",
            ));
            return None;
        }
    };
    if is_context(&typed.ty, errors) {
        // Nobody but a reader of the code is told about it.
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
                "a parameter of a tool needs a name: write `name: Type` and take it apart inside",
            ));
            return None;
        }
    };
    if attributes.docs.is_empty() && names_context(&typed.ty) {
        errors.push(Error::new(typed.ty.span(), "the context of a call is lent: write `&Context`"));
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
        passed_on: attributes.passed_on,
    })
}

/// The attributes of a parameter that are meant for the SDK. Rust allows no others of them there.
struct ParameterAttributes {
    docs: Vec<Attribute>,
    default: Option<Attribute>,
    passed_on: Vec<Attribute>,
}

fn take_attributes(attributes: &mut Vec<Attribute>, errors: &mut Errors) -> ParameterAttributes {
    let mut taken = ParameterAttributes { docs: Vec::new(), default: None, passed_on: Vec::new() };
    for attribute in std::mem::take(attributes) {
        let path = attribute.path();
        if is_doc(&attribute) {
            taken.docs.push(attribute);
        } else if path.is_ident("default") {
            if taken.default.is_some() {
                errors.push(Error::new(attribute.span(), "`default` stands twice"));
            }
            taken.default = Some(attribute);
        } else if path.is_ident("serde") || path.is_ident("schemars") {
            check_passed_on(&attribute, errors);
            taken.passed_on.push(attribute);
        } else {
            attributes.push(attribute);
        }
    }
    taken
}

/// What serde would take, and the schema does not name: the call is refused before serde sees it.
fn check_passed_on(attribute: &Attribute, errors: &mut Errors) {
    for word in words_of(attribute).filter(|word| word.path().is_ident("alias")) {
        let message = "an argument has one name, which its schema says: leave `alias` out, and for another name than the parameter's write `#[serde(rename = \"..\")]`";
        errors.push(Error::new(word.span(), message));
    }
}

fn read_default(attribute: &Attribute) -> syn::Result<ParameterDefault> {
    match &attribute.meta {
        Meta::Path(_) => Ok(ParameterDefault::OfType),
        Meta::List(list) => match list.parse_args() {
            Ok(value) => Ok(ParameterDefault::Value(Box::new(own_text(value)))),
            Err(error) => {
                Err(Error::new(error.span(), "a parameter has one default: write it as `#[default(10)]`"))
            }
        },
        Meta::NameValue(pair) => Ok(ParameterDefault::Value(Box::new(own_text(pair.value.clone())))),
    }
}

/// A text literal stands for the `String` that the parameter is.
fn own_text(value: Expr) -> Expr {
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
            format!("parameter `{parameter}` needs a type of its own: write which instead of `impl`")
        }
        _ => return,
    };
    errors.push(Error::new(ty.span(), message));
}

/// Whether the type is `&Context`. One that may change it is told so.
fn is_context(ty: &Type, errors: &mut Errors) -> bool {
    let Type::Reference(reference) = ty else { return false };
    let is_context = names_context(&reference.elem);
    if let (true, Some(_)) = (is_context, &reference.mutability) {
        errors.push(Error::new(ty.span(), "the context of a call does not change: write `&Context`"));
    }
    is_context
}

fn names_context(ty: &Type) -> bool {
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
    let (value, failure) = of_result(&ty).unwrap_or((&ty, None));
    if let Type::ImplTrait(_) | Type::Reference(_) | Type::Infer(_) = value {
        let message = "the result of a tool needs an owned type: write which, and derive `Serialize` and `JsonSchema` for it";
        errors.push(Error::new(value.span(), message));
    }
    if let Some(failure) = failure {
        check_failure(failure, errors);
    }
    let (value, failure) = (value.span(), failure.map_or(ty.span(), Spanned::span));
    Output { ty, value, failure }
}

/// What becomes no `toolgate_sdk::Error`. Of other types, and behind an alias, the compiler knows.
fn check_failure(ty: &Type, errors: &mut Errors) {
    let is_named = |path: &syn::Path, names: &[&str]| {
        path.segments.last().is_some_and(|segment| names.iter().any(|name| segment.ident == *name))
    };
    let advice = match ty {
        Type::Path(path) if is_named(&path.path, &["String", "Cow"]) => MADE_OF_TEXT,
        Type::Reference(_) => MADE_OF_TEXT,
        Type::Tuple(tuple) if tuple.elems.is_empty() => MADE_OF_TEXT,
        Type::Path(path) if is_named(&path.path, &["Box"]) => "`?` makes one of any error",
        _ => return,
    };
    let message =
        format!("a tool fails with `toolgate_sdk::Error`, which a model is told: write it here; {advice}");
    errors.push(Error::new(ty.span(), message));
}

/// The `T` and the `E` of any `Result<T, E>`, however it is called in full.
fn of_result(ty: &Type) -> Option<(&Type, Option<&Type>)> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(value) => Some(value),
        _ => None,
    });
    Some((types.next()?, types.next()))
}

/// `Some(tokens)` or `None`, as the generated code writes them.
pub fn option(tokens: Option<impl ToTokens>) -> TokenStream {
    match tokens {
        Some(tokens) => quote!(::core::option::Option::Some(#tokens)),
        None => quote!(::core::option::Option::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Features are those of everything that is built together, so no build of the workspace is without this one.
    #[test]
    fn t2_an_async_tool_without_the_feature_is_told_which() {
        let told = |may_be_async| {
            let mut errors = Errors::default();
            check_signature(&syn::parse_quote!(async fn wait()), may_be_async, &mut errors);
            errors.0.map(|error| error.to_string())
        };

        let message = told(false).unwrap();
        assert!(message.contains("write `toolgate-sdk = { .., features = [\"async\"] }`"), "{message}");
        assert_eq!(told(true), None);
    }
}
