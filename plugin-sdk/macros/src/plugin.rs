//! `plugin!`: parses the plugin's settings, and generates the type `ThisPlugin` and the exports of the component.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Error, Ident, LitBool, LitInt, LitStr, Path, Result, Token, Type, bracketed, parenthesized, token,
};

use crate::function::{Errors, option};
use crate::name;
use crate::network::NetworkRule;
use crate::tool::write_placeholder;

/// The settings of the macro, for error messages.
const KNOWN: &str =
    "version, publisher, category, purpose, capabilities(..), settings, limits(..), and the names of tools";

/// The limits of a call, the same as the host's.
const LIMITS: [&str; 23] = [
    "fuel",
    "deadline_ms",
    "memory_bytes",
    "memories",
    "tables",
    "table_elements",
    "instances",
    "component_handles",
    "resources",
    "host_call_bytes",
    "host_calls",
    "random_bytes",
    "header_bytes",
    "output_bytes",
    "log_bytes",
    "arguments_bytes",
    "arguments_depth",
    "workspace_bytes",
    "workspace_files",
    "open_files",
    "requests",
    "egress_bytes",
    "inner_calls",
];

pub fn expand(input: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let read = |input: ParseStream<'_>| Plugin::read(input, &mut errors);
    let plugin = match read.parse2(input) {
        Ok(plugin) => plugin,
        Err(error) => {
            errors.push(error);
            None
        }
    };
    match plugin.filter(|_| errors.is_empty()) {
        Some(plugin) => plugin.write(),
        None => errors.into_token_stream(),
    }
}

struct Plugin {
    namespace: LitStr,
    version: Option<LitStr>,
    publisher: Option<LitStr>,
    category: Option<LitStr>,
    purpose: Option<LitStr>,
    capabilities: Capabilities,
    settings: Option<Type>,
    /// The type that makes plugins of definitions in the same component.
    defined: Option<Type>,
    limits: Vec<(Ident, LitInt)>,
    tools: Vec<Path>,
}

#[derive(Default)]
struct Capabilities {
    workspace: bool,
    network: Vec<NetworkRule>,
    credentials: Vec<LitStr>,
    unused: Vec<LitStr>,
    calls: bool,
    messages: bool,
}

impl Plugin {
    /// Parses the input. Mistakes are added to `errors` at once; an error is returned where parsing cannot continue.
    fn read(input: ParseStream<'_>, errors: &mut Errors) -> Result<Option<Self>> {
        let Some(namespace) = read_namespace(input, errors)? else { return Ok(None) };
        let mut plugin = Self::new(namespace);
        let mut seen: Vec<Ident> = Vec::new();
        let mut names_tools = false;
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let is_setting =
                input.peek(Ident::peek_any) && (input.peek2(Token![=]) || input.peek2(token::Paren));
            let read = if is_setting {
                plugin.read_setting(input, &mut seen, errors)
            } else {
                names_tools = true;
                input.parse().map(|tool| plugin.tools.push(tool))
            };
            if let Err(error) = read {
                errors.push(error);
                skip_to_comma(input)?;
            }
        }
        if !names_tools {
            let message =
                "a plugin needs a tool: write the name of a function with `#[tool]` after the namespace";
            errors.push(Error::new(plugin.namespace.span(), message));
        }
        Ok(Some(plugin))
    }

    fn new(namespace: LitStr) -> Self {
        Self {
            namespace,
            version: None,
            publisher: None,
            category: None,
            purpose: None,
            capabilities: Capabilities::default(),
            settings: None,
            defined: None,
            limits: Vec::new(),
            tools: Vec::new(),
        }
    }

    fn read_setting(
        &mut self,
        input: ParseStream<'_>,
        seen: &mut Vec<Ident>,
        errors: &mut Errors,
    ) -> Result<()> {
        let word = input.call(Ident::parse_any)?;
        if seen.contains(&word) {
            return Err(Error::new(word.span(), format!("`{word}` is set twice")));
        }
        seen.push(word.clone());
        match word.to_string().as_str() {
            "version" => self.version = Some(text(input)?),
            "publisher" => self.publisher = Some(text(input)?),
            "category" => self.category = Some(text(input)?),
            "purpose" => self.purpose = Some(text(input)?),
            // `config` is the earlier name.
            "settings" | "config" if input.peek(Token![=]) => {
                input.parse::<Token![=]>()?;
                self.settings = Some(input.parse()?);
            }
            "defined" => {
                input.parse::<Token![=]>()?;
                self.defined = Some(input.parse()?);
            }
            "capabilities" => self.capabilities = Capabilities::read(input, errors)?,
            "limits" => self.limits = read_limits(input, errors)?,
            other => {
                return Err(Error::new(
                    word.span(),
                    format!("unknown setting `{other}`: a plugin has {KNOWN}"),
                ));
            }
        }
        Ok(())
    }

    fn write(&self) -> TokenStream {
        let aliases: Vec<Ident> = self.tools.iter().enumerate().map(alias).collect();
        let facts = self.write_facts(&aliases);
        let exported = match &self.defined {
            Some(defined) => quote!(::toolgate_sdk::__private::PluginOrDefined<ThisPlugin, #defined>),
            None => quote!(ThisPlugin),
        };
        let checks = self.write_checks(&aliases);
        let fallbacks = self.tools.iter().zip(&aliases).map(|(tool, alias)| write_fallback(tool, alias));
        let imports = self.tools.iter().zip(&aliases).map(|(tool, alias)| write_import(tool, alias));
        quote! {
            /// The plugin of this crate, generated by `plugin!`.
            #[allow(dead_code)]
            pub struct ThisPlugin;

            const _: () = {
                #(#fallbacks)*

                const _: () = {
                    #(#imports)*

                    impl ::toolgate_sdk::__private::Plugin for ThisPlugin {
                        const FACTS: ::toolgate_sdk::__private::PluginFacts = #facts;

                        fn call(
                            tool: &str,
                            context: &::toolgate_sdk::Context,
                            arguments: &str,
                        ) -> ::core::option::Option<
                            ::core::result::Result<::toolgate_sdk::__private::ToolOutput, ::toolgate_sdk::Error>,
                        > {
                            ::core::option::Option::Some(match tool {
                                #(<#aliases as ::toolgate_sdk::Tool>::NAME => <#aliases as ::toolgate_sdk::Tool>::call(context, arguments),)*
                                _ => return ::core::option::Option::None,
                            })
                        }
                    }

                    #checks
                };

                #[cfg(target_family = "wasm")]
                const _: () = {
                    type Exported = #exported;
                    ::toolgate_sdk::__private::bindings::export!(Exported with_types_in ::toolgate_sdk::__private::bindings);
                };
            };
        }
    }

    fn write_facts(&self, aliases: &[Ident]) -> TokenStream {
        let namespace = &self.namespace;
        let version = or_package_env(self.version.as_ref(), "CARGO_PKG_VERSION");
        let purpose = or_package_env(self.purpose.as_ref(), "CARGO_PKG_DESCRIPTION");
        let publisher = option(self.publisher.as_ref());
        let category = option(self.category.as_ref());
        let capabilities = self.capabilities.write();
        let config_schema = option(
            self.settings
                .as_ref()
                .map(|ty| quote_spanned!(ty.span()=> ::toolgate_sdk::__private::settings_schema::<#ty>)),
        );
        let limits = self.limits.iter().map(|(limit, value)| {
            let limit = limit.to_string();
            quote!((#limit, #value))
        });
        quote! {
            ::toolgate_sdk::__private::PluginFacts {
                name: #namespace,
                version: #version,
                publisher: #publisher,
                category: #category,
                purpose: #purpose,
                capabilities: #capabilities,
                config_schema: #config_schema,
                limits: &[#(#limits),*],
                tools: &[#(<#aliases as ::toolgate_sdk::Tool>::FACTS),*],
            }
        }
    }

    /// Compile-time assertions about the tools' names, which only the compiler knows.
    fn write_checks(&self, aliases: &[Ident]) -> TokenStream {
        let namespace = &self.namespace;
        let too_long = "namespace and name of this tool are too long together: `call_NAMESPACE_TOOL` can have 64 characters";
        let repeated = "an earlier tool has the same name: rename one of them with `#[tool(name = \"..\")]`";
        let checks = self.tools.iter().zip(aliases).enumerate().map(|(index, (path, tool))| {
            let not_a_tool = format!("`{}` is not a tool: write `#[tool]` on the function", path_text(path));
            quote_spanned! {path.span()=>
                const _: () = ::core::assert!(<#tool as ::toolgate_sdk::Tool>::IS_TOOL, #not_a_tool);
                const _: () = ::core::assert!(
                    ::toolgate_sdk::__private::wire_name_fits(#namespace, <#tool as ::toolgate_sdk::Tool>::NAME),
                    #too_long
                );
                const _: () = ::core::assert!(
                    ::toolgate_sdk::__private::has_unique_name(
                        <ThisPlugin as ::toolgate_sdk::__private::Plugin>::FACTS.tools,
                        #index
                    ),
                    #repeated
                );
            }
        });
        quote!(#(#checks)*)
    }
}

/// The name of a tool's type in the generated code.
fn alias((index, tool): (usize, &Path)) -> Ident {
    format_ident!("__ToolgateTool{index}", span = tool.span())
}

fn path_text(tool: &Path) -> String {
    tool.to_token_stream().to_string().replace(' ', "")
}

/// `self::` resolves a bare name in this module; otherwise it could be the name of a crate.
fn write_import(tool: &Path, alias: &Ident) -> TokenStream {
    let here = tool.get_ident().map(|name| quote_spanned!(name.span()=> self::));
    quote! {
        #[allow(unused_imports)]
        use #here #tool as #alias;
    }
}

/// A type in an outer scope, which the import of the tool's own type shadows. A function without `#[tool]` has no type, so
/// this one is found, and `write_checks` reports it.
fn write_fallback(tool: &Path, alias: &Ident) -> TokenStream {
    let name = path_text(tool);
    let implementation = write_placeholder(
        alias,
        &name,
        quote!(
            const IS_TOOL: bool = false;
        ),
    );
    quote! {
        #[allow(dead_code)]
        enum #alias {}
        #implementation
    }
}

impl Capabilities {
    fn read(input: ParseStream<'_>, errors: &mut Errors) -> Result<Self> {
        let content;
        parenthesized!(content in input);
        let mut capabilities = Self::default();
        while !content.is_empty() {
            if let Err(error) = capabilities.read_one(&content, errors) {
                errors.push(error);
                skip_to_comma(&content)?;
            }
            if !content.is_empty() {
                content.parse::<Token![,]>()?;
            }
        }
        Ok(capabilities)
    }

    fn read_one(&mut self, input: ParseStream<'_>, errors: &mut Errors) -> Result<()> {
        let word = input.call(Ident::parse_any)?;
        input.parse::<Token![=]>()?;
        match word.to_string().as_str() {
            "filesystem" => self.workspace = read_filesystem(input)?,
            "network" => {
                let rules = texts("network = [\"https://example.com\"]", input)?;
                self.network = rules.iter().filter_map(|rule| errors.take(NetworkRule::read(rule))).collect();
            }
            "credentials" => self.credentials = texts("credentials = [\"stripe\"]", input)?,
            "unused" => self.unused = texts("unused = [\"filesystem\"]", input)?,
            "calls" => self.calls = input.parse::<LitBool>()?.value,
            "messages" => self.messages = input.parse::<LitBool>()?.value,
            other => {
                let message = format!(
                    "unknown capability `{other}`: use filesystem, network, credentials, calls, messages or unused"
                );
                return Err(Error::new(word.span(), message));
            }
        }
        Ok(())
    }

    fn write(&self) -> TokenStream {
        let Self { workspace, credentials, calls, messages, unused, .. } = self;
        let network = self.network.iter().map(NetworkRule::write);
        quote! {
            ::toolgate_sdk::__private::Capabilities {
                workspace: #workspace,
                network: &[#(#network),*],
                credentials: &[#(#credentials),*],
                calls: #calls,
                messages: #messages,
                unused: &[#(#unused),*],
            }
        }
    }
}

/// Parses the namespace. Without one, the rest is not parsed.
fn read_namespace(input: ParseStream<'_>, errors: &mut Errors) -> Result<Option<LitStr>> {
    let namespace: LitStr = match input.parse() {
        Ok(namespace) => namespace,
        Err(error) => {
            let message = "the namespace of the plugin comes first: write it as in `plugin!(\"sums\", add)`";
            errors.push(Error::new(error.span(), message));
            input.parse::<TokenStream>()?;
            return Ok(None);
        }
    };
    if let Err(message) = name::check_namespace(&namespace.value()) {
        errors.push(Error::new(namespace.span(), message));
    }
    Ok(Some(namespace))
}

/// Skips an invalid setting.
fn skip_to_comma(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn read_filesystem(input: ParseStream<'_>) -> Result<bool> {
    let word: Ident = input.parse().map_err(|error| {
        Error::new(
            error.span(),
            "write it as `filesystem = workspace` or `filesystem = none`, without quotes",
        )
    })?;
    match word.to_string().as_str() {
        "workspace" => Ok(true),
        "none" => Ok(false),
        other => Err(Error::new(
            word.span(),
            format!("unknown file system `{other}`: write `workspace` or `none`"),
        )),
    }
}

fn read_limits(input: ParseStream<'_>, errors: &mut Errors) -> Result<Vec<(Ident, LitInt)>> {
    let content;
    parenthesized!(content in input);
    let limit = |input: ParseStream<'_>| {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok((name, input.parse()?))
    };
    let limits: Vec<(Ident, LitInt)> = content.parse_terminated(limit, Token![,])?.into_iter().collect();
    for (name, _) in limits.iter().filter(|(name, _)| !LIMITS.contains(&name.to_string().as_str())) {
        let message = format!("unknown limit `{name}`: use one of {}", LIMITS.join(", "));
        errors.push(Error::new(name.span(), message));
    }
    Ok(limits)
}

fn text(input: ParseStream<'_>) -> Result<LitStr> {
    input.parse::<Token![=]>()?;
    let text: LitStr = input.parse()?;
    if text.value().trim().is_empty() {
        return Err(Error::new(text.span(), "this text is empty: write it, or leave it out"));
    }
    Ok(text)
}

/// Parses texts in brackets. `form` is an example for the error.
fn texts(form: &str, input: ParseStream<'_>) -> Result<Vec<LitStr>> {
    if !input.peek(token::Bracket) {
        return Err(Error::new(input.span(), format!("write it as `{form}`")));
    }
    let content;
    bracketed!(content in input);
    Ok(Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

fn or_package_env(given: Option<&LitStr>, variable: &str) -> TokenStream {
    match given {
        Some(text) => quote!(#text),
        None => quote!(::core::env!(#variable)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The host's table has one row for each limit, which begins with its name.
    #[test]
    fn the_limits_are_those_of_the_host() {
        let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../daemon/api/src/limits.rs");
        let table = std::fs::read_to_string(table).unwrap();
        let (_, rows) = table.split_once("\nlimits! {\n").unwrap();
        let (rows, _) = rows.split_once("\n}\n").unwrap();
        let names: Vec<&str> = rows
            .lines()
            .filter(|line| line.contains(" = ") && !line.trim_start().starts_with('"'))
            .filter_map(|line| line.split_whitespace().next())
            .collect();

        assert_eq!(names, LIMITS);
    }
}
