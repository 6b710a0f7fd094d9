//! `#[tool]`: parses the attribute, and generates a type of the function's name that implements `toolgate_sdk::Tool`.
//!
//! Types and functions have separate namespaces in Rust, so one path names both, and `plugin!` finds the tool by the path of
//! the function.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Ident, Item, ItemFn, LitBool, LitInt, LitStr, Result, Token, Type, parenthesized, token};

use crate::function::{Errors, Function, Input, Output, Parameter, ParameterDefault, option};
use crate::json::{Json, Object};
use crate::name;

/// The settings of the attribute, for error messages.
const KNOWN: &str = "read_only, destructive, idempotent, open_world, name, usage, mode, result, tags, prerequisites, \
                     integrations, examples, cost, redact";

/// The setting that differs from the written one in case or underscores, else all of them.
fn known_setting(written: &str) -> String {
    let letters = |word: &str| word.replace('_', "").to_lowercase();
    let meant = KNOWN.split(", ").find(|known| letters(known) == letters(written));
    meant.map_or_else(|| format!("a tool has {KNOWN}"), |known| format!("did you mean `{known}`?"))
}

pub fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut item: ItemFn = match syn::parse2(item.clone()) {
        Ok(item) => item,
        Err(error) => return refuse_item(item, error),
    };
    // Clippy would suggest references, but a tool must own its parameters.
    item.attrs.push(syn::parse_quote!(#[allow(clippy::needless_pass_by_value)]));
    let mut errors = Errors::default();
    let settings = errors.take(Settings::read.parse2(attribute)).unwrap_or_default();
    let function = Function::read(item, &mut errors);
    let name = check_name(&function, &settings, &mut errors);
    settings.check_against(&function, &mut errors);

    let item = &function.item;
    let tool_type = if errors.is_empty() {
        write_tool_type(&function, &settings, &name)
    } else {
        write_broken_tool_type(&function)
    };
    quote!(#errors #item #tool_type)
}

/// The error for an item that is not a function, or that does not parse.
fn refuse_item(item: TokenStream, error: Error) -> TokenStream {
    if syn::parse2::<Item>(item.clone()).is_err() {
        return error.to_compile_error();
    }
    let error = Error::new(error.span(), "`#[tool]` belongs on a function").to_compile_error();
    quote!(#error #item)
}

/// The settings in the attribute.
#[derive(Default)]
struct Settings {
    read_only: Option<LitBool>,
    destructive: Option<LitBool>,
    idempotent: Option<LitBool>,
    open_world: Option<LitBool>,
    name: Option<LitStr>,
    usage: Option<LitStr>,
    mode: Option<LitStr>,
    result: Option<Type>,
    tags: Vec<LitStr>,
    prerequisites: Vec<LitStr>,
    integrations: Vec<LitStr>,
    examples: Vec<Example>,
    cost: Option<LitInt>,
    redact: Vec<LitStr>,
}

/// `"description": {"a": 1} => 2`; description and result are optional.
struct Example {
    description: Option<LitStr>,
    input: Object,
    output: Option<Json>,
}

impl Settings {
    fn read(input: ParseStream<'_>) -> Result<Self> {
        let mut settings = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            let word = input.call(Ident::parse_any)?;
            if seen.contains(&word) {
                return Err(Error::new(word.span(), format!("`{word}` is set twice")));
            }
            settings.read_setting(&word, input)?;
            seen.push(word);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(settings)
    }

    fn read_setting(&mut self, word: &Ident, input: ParseStream<'_>) -> Result<()> {
        match word.to_string().as_str() {
            "read_only" => self.read_only = Some(flag(word, input)?),
            "destructive" => self.destructive = Some(flag(word, input)?),
            "idempotent" => self.idempotent = Some(flag(word, input)?),
            "open_world" => self.open_world = Some(flag(word, input)?),
            "name" => self.name = Some(value("name = \"..\"", input)?),
            "usage" => self.usage = Some(value("usage = \"..\"", input)?),
            "mode" => self.mode = Some(value("mode = \"client\"", input)?),
            "result" => self.result = Some(value("result = Type", input)?),
            "tags" => self.tags = texts(word, input)?,
            "prerequisites" => self.prerequisites = texts(word, input)?,
            "integrations" => self.integrations = texts(word, input)?,
            "examples" => self.examples = list("examples({\"a\": 1} => 2)", input)?,
            "cost" => self.cost = Some(value("cost = 5", input)?),
            "redact" => self.redact = texts(word, input)?,
            other => {
                return Err(Error::new(
                    word.span(),
                    format!("unknown setting `{other}`: {}", known_setting(other)),
                ));
            }
        }
        Ok(())
    }

    fn is_client(&self) -> bool {
        self.mode.as_ref().is_some_and(|mode| mode.value() == "client")
    }

    fn check_against(&self, function: &Function, errors: &mut Errors) {
        self.check_hints(errors);
        self.check_mode(errors);
        self.check_texts(errors);
        // Only serde knows the argument names of a renamed or flattened parameter.
        if function.parameters().any(Parameter::is_renamed) {
            return;
        }
        let names: Vec<String> = function.parameters().map(Parameter::name).collect();
        for (key, _) in self.examples.iter().flat_map(|example| &example.input.members) {
            check_parameter(&key.value(), key, &names, errors);
        }
        for pointer in &self.redact {
            match pointer.value().strip_prefix('/') {
                Some(path) => {
                    check_parameter(path.split('/').next().unwrap_or(path), pointer, &names, errors)
                }
                None => errors.push(Error::new(
                    pointer.span(),
                    format!("a JSON pointer begins with a slash: write `\"/{}\"`", pointer.value()),
                )),
            }
        }
    }

    fn check_hints(&self, errors: &mut Errors) {
        let is_true = |flag: &Option<LitBool>| flag.as_ref().is_some_and(LitBool::value);
        if let (true, Some(destructive)) = (is_true(&self.read_only), &self.destructive)
            && destructive.value()
        {
            errors.push(Error::new(
                destructive.span(),
                "a tool cannot be `read_only` and `destructive`: leave one of them out",
            ));
        }
    }

    fn check_mode(&self, errors: &mut Errors) {
        if let Some(mode) = &self.mode
            && !matches!(mode.value().as_str(), "server" | "client")
        {
            errors.push(Error::new(
                mode.span(),
                "the mode of a tool is `\"server\"` or `\"client\"`: write one of them",
            ));
        }
        if let (Some(result), false) = (&self.result, self.is_client()) {
            let message = "`result` needs `mode = \"client\"`, where the client posts the result; other tools return theirs";
            errors.push(Error::new(result.span(), message));
        }
    }

    fn check_texts(&self, errors: &mut Errors) {
        let lists = self.tags.iter().chain(&self.prerequisites).chain(&self.integrations);
        for text in lists.chain(&self.usage).filter(|text| text.value().trim().is_empty()) {
            errors.push(Error::new(text.span(), "this text is empty: write it, or leave it out"));
        }
    }
}

impl Parse for Example {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let description = if input.peek(LitStr) {
            let description = input.parse()?;
            input.parse::<Token![:]>()?;
            Some(description)
        } else {
            None
        };
        let object = input.parse()?;
        let output = if input.parse::<Option<Token![=>]>>()?.is_some() { Some(input.parse()?) } else { None };
        Ok(Self { description, input: object, output })
    }
}

fn flag(word: &Ident, input: ParseStream<'_>) -> Result<LitBool> {
    if input.peek(Token![=]) {
        value(&format!("{word}` or `{word} = false"), input)
    } else {
        Ok(LitBool::new(true, word.span()))
    }
}

/// Parses the value after `=`. `form` is an example for the error.
fn value<T: Parse>(form: &str, input: ParseStream<'_>) -> Result<T> {
    let parsed = input.parse::<Token![=]>().and_then(|_| input.parse());
    parsed.map_err(|error| form_error(error.span(), form))
}

fn texts(word: &Ident, input: ParseStream<'_>) -> Result<Vec<LitStr>> {
    let form = format!("{word}(\"..\")");
    list(&form, input).map_err(|error| form_error(error.span(), &form))
}

/// Parses a list in parentheses. `form` is an example for the error.
fn list<T: Parse>(form: &str, input: ParseStream<'_>) -> Result<Vec<T>> {
    if !input.peek(token::Paren) {
        return Err(form_error(input.span(), form));
    }
    let content;
    parenthesized!(content in input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

fn form_error(place: Span, form: &str) -> Error {
    Error::new(place, format!("write it as `{form}`"))
}

fn check_name(function: &Function, settings: &Settings, errors: &mut Errors) -> String {
    let (name, span) = match &settings.name {
        Some(name) => (name.value(), name.span()),
        None => (function.ident().unraw().to_string(), function.ident().span()),
    };
    if let Err(message) = name::check_tool(&name) {
        errors.push(Error::new(span, message));
    }
    name
}

fn check_parameter(name: &str, place: &LitStr, names: &[String], errors: &mut Errors) {
    if names.iter().any(|known| known == name) {
        return;
    }
    let known = if names.is_empty() { "none".to_owned() } else { format!("`{}`", names.join("`, `")) };
    errors.push(Error::new(place.span(), format!("the tool has no parameter `{name}`: it has {known}")));
}

fn declare_tool_type(function: &Function) -> TokenStream {
    let (ident, visibility) = (function.ident(), function.visibility());
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #visibility enum #ident {}
    }
}

/// A placeholder for a tool with mistakes, so that `plugin!` does not report them again. It has the function's name, since
/// names must be unique.
fn write_broken_tool_type(function: &Function) -> TokenStream {
    if function.item.sig.receiver().is_some() {
        return TokenStream::new();
    }
    let ident = function.ident();
    let declaration = declare_tool_type(function);
    let implementation = write_placeholder(ident, &ident.unraw().to_string(), TokenStream::new());
    quote!(#declaration #implementation)
}

/// An implementation of `Tool` that is never called, because an error ends the build.
pub fn write_placeholder(ident: &Ident, name: &str, is_tool: TokenStream) -> TokenStream {
    quote! {
        impl ::toolgate_sdk::Tool for #ident {
            const NAME: &'static str = #name;
            const FACTS: ::toolgate_sdk::__private::ToolFacts =
                ::toolgate_sdk::__private::ToolFacts::placeholder(#name);
            #is_tool

            fn call(
                _: &::toolgate_sdk::Context,
                _: &str,
            ) -> ::core::result::Result<::toolgate_sdk::__private::ToolOutput, ::toolgate_sdk::Error> {
                ::core::unreachable!()
            }
        }
    }
}

fn write_tool_type(function: &Function, settings: &Settings, name: &str) -> TokenStream {
    let ident = function.ident();
    let declaration = declare_tool_type(function);
    let arguments = write_arguments(function);
    let facts = write_facts(function, settings);
    let call = write_call(function, settings);
    quote! {
        #declaration

        const _: () = {
            #[allow(unused_imports)]
            use ::toolgate_sdk::__private::PlainReturn as _;

            #arguments

            impl ::toolgate_sdk::Tool for #ident {
                const NAME: &'static str = #name;
                const FACTS: ::toolgate_sdk::__private::ToolFacts = #facts;
                #call
            }
        };
    }
}

/// The struct into which arguments are parsed, and from which the input schema is generated.
fn write_arguments(function: &Function) -> TokenStream {
    let fields = function.parameters().map(|parameter| {
        let Parameter { ident, ty, text, forwarded, .. } = parameter;
        let default = write_default_attribute(parameter);
        quote_spanned! {ty.span()=>
            #[doc = #text]
            #default
            #(#forwarded)*
            #ident: #ty,
        }
    });
    let defaults = function.parameters().filter_map(write_default_function);
    // serde cannot combine `flatten` with `deny_unknown_fields`. The schema refuses unknown arguments.
    let closed = (!function.is_flattened()).then(|| quote!(, deny_unknown_fields));
    quote! {
        #[derive(::toolgate_sdk::serde::Deserialize, ::toolgate_sdk::schemars::JsonSchema)]
        #[serde(crate = "::toolgate_sdk::serde" #closed)]
        #[schemars(crate = "::toolgate_sdk::schemars")]
        struct __ToolgateArguments {
            #(#fields)*
        }
        #(#defaults)*
    }
}

fn write_default_attribute(parameter: &Parameter) -> Option<TokenStream> {
    parameter.default.as_ref().map(|default| match default {
        ParameterDefault::OfType => quote!(#[serde(default)]),
        ParameterDefault::Value(_) => {
            let path = default_function(parameter).to_string();
            quote!(#[serde(default = #path)])
        }
    })
}

fn write_default_function(parameter: &Parameter) -> Option<TokenStream> {
    let Some(ParameterDefault::Value(value)) = &parameter.default else { return None };
    let (function, ty) = (default_function(parameter), &parameter.ty);
    Some(quote! {
        fn #function() -> #ty {
            #value
        }
    })
}

fn default_function(parameter: &Parameter) -> Ident {
    format_ident!("__toolgate_default_{}", parameter.ident.unraw())
}

fn write_facts(function: &Function, settings: &Settings) -> TokenStream {
    let ident = function.ident();
    let docs = function.docs.as_ref();
    let description = docs.map(|docs| docs.description()).unwrap_or_default();
    let usage = match &settings.usage {
        Some(usage) => usage.value(),
        None => docs.map(|docs| docs.usage()).unwrap_or_default(),
    };
    let mode = if settings.is_client() { quote!(Client) } else { quote!(Server) };
    let output_schema = write_output_schema(function, settings);
    let read_only = option(settings.read_only.as_ref());
    let destructive = option(settings.destructive.as_ref());
    let idempotent = option(settings.idempotent.as_ref());
    let open_world = option(settings.open_world.as_ref());
    let Settings { tags, prerequisites, integrations, redact, .. } = settings;
    let examples = settings.examples.iter().map(write_example);
    let cost = settings.cost.as_ref().map_or_else(|| quote!(0), |cost| quote!(#cost));
    quote! {
        ::toolgate_sdk::__private::ToolFacts {
            name: <#ident as ::toolgate_sdk::Tool>::NAME,
            description: #description,
            usage: #usage,
            input_schema: ::toolgate_sdk::__private::input_schema::<__ToolgateArguments>,
            output_schema: #output_schema,
            mode: ::toolgate_sdk::__private::Mode::#mode,
            hints: ::toolgate_sdk::__private::Hints {
                read_only: #read_only,
                destructive: #destructive,
                idempotent: #idempotent,
                open_world: #open_world,
            },
            required_integrations: &[#(#integrations),*],
            prerequisites: &[#(#prerequisites),*],
            tags: &[#(#tags),*],
            examples: &[#(#examples),*],
            cost: #cost,
            redact: &[#(#redact),*],
        }
    }
}

/// A tool of mode `client` returns a payload; its result comes from the client.
fn write_output_schema(function: &Function, settings: &Settings) -> TokenStream {
    let Output { ty, value, .. } = &function.output;
    match (settings.is_client(), &settings.result) {
        (false, _) => quote_spanned!(*value=> ::toolgate_sdk::__private::ToolReturn::<#ty>::schema),
        (true, Some(ty)) => quote_spanned!(ty.span()=> ::toolgate_sdk::__private::output_schema::<#ty>),
        (true, None) => quote!(::toolgate_sdk::__private::any_result),
    }
}

fn write_example(example: &Example) -> TokenStream {
    let description = option(example.description.as_ref());
    let input = example.input.to_text();
    let output = option(example.output.as_ref().map(Json::to_text));
    quote!(::toolgate_sdk::__private::Example { description: #description, input: #input, output: #output })
}

fn write_call(function: &Function, settings: &Settings) -> TokenStream {
    let ident = function.ident();
    // Fields are not bound to local names: one of them may be that of the function.
    let inputs = function.inputs.iter().map(|input| match input {
        Input::Parameter(parameter) => {
            let field = &parameter.ident;
            quote!(__toolgate_parsed.#field)
        }
        Input::Context => quote!(__toolgate_context),
    });
    let mut result = quote!(#ident(#(#inputs),*));
    if function.is_async() {
        result = quote!(::toolgate_sdk::__private::block_on(#result));
    }
    let parse =
        if function.is_flattened() { quote!(parse_flattened_arguments) } else { quote!(parse_arguments) };
    let Output { ty, value, failure } = &function.output;
    let value_or_error = quote_spanned!(*failure=> ::toolgate_sdk::__private::ToolReturn::<#ty>::into_result(__toolgate_result)?);
    let output = if settings.is_client() { quote!(client) } else { quote!(output) };
    let output = quote_spanned!(*value=> ::toolgate_sdk::__private::#output(&__toolgate_value));
    quote! {
        #[allow(unused_variables, clippy::let_unit_value)]
        fn call(
            __toolgate_context: &::toolgate_sdk::Context,
            __toolgate_arguments: &str,
        ) -> ::core::result::Result<::toolgate_sdk::__private::ToolOutput, ::toolgate_sdk::Error> {
            let __toolgate_parsed: __ToolgateArguments =
                ::toolgate_sdk::__private::#parse(__toolgate_arguments)?;
            let __toolgate_result = #result;
            let __toolgate_value = #value_or_error;
            #output
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t2_clippy_does_not_suggest_references_for_parameters() {
        let item = quote! {
            /// Says it.
            fn say(
                /// What
                text: String,
            ) {
            }
        };

        let written = expand(TokenStream::new(), item).to_string();

        assert!(written.contains("# [allow (clippy :: needless_pass_by_value)] fn say"), "{written}");
    }
}
