//! Types of TypeScript, taken out of a script. Each character becomes a space, so that lines and columns stay.

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    Class, FormalParameter, Function, MethodDefinition, PropertyDefinition, PropertyDefinitionType,
    TSAsExpression, TSEnumDeclaration, TSGlobalDeclaration, TSIndexSignature, TSInterfaceDeclaration,
    TSNamespaceDeclaration, TSNonNullExpression, TSSatisfiesExpression, TSThisParameter,
    TSTypeAliasDeclaration, TSTypeAnnotation, TSTypeAssertion, TSTypeParameterDeclaration,
    TSTypeParameterInstantiation, VariableDeclaration, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType, Span};
use oxc_syntax::scope::ScopeFlags;

/// Words before a member of a class that are for the compiler of types alone.
const MODIFIERS: [&str; 5] = ["public", "private", "protected", "readonly", "override"];

/// The script without its types. None for a text that is no TypeScript, and for what has a meaning when it runs, such as an `enum`.
pub fn without_types(script: &str) -> Option<String> {
    let allocator = Allocator::default();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, script, SourceType::ts()).with_options(options).parse();
    if parsed.panicked || !parsed.diagnostics.is_empty() {
        return None;
    }
    let mut types = Types { script, spans: Vec::new(), has_code: false };
    types.visit_program(&parsed.program);
    (!types.has_code && !types.spans.is_empty()).then(|| blank(script, types.spans))
}

/// A place in a script, whose parser counts with 32 bits.
fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn blank(script: &str, mut spans: Vec<Span>) -> String {
    spans.sort_unstable_by_key(|span| span.start);
    let mut text = String::with_capacity(script.len());
    let mut spans = spans.into_iter().peekable();
    for (at, character) in script.char_indices() {
        while spans.next_if(|span| span.end as usize <= at).is_some() {}
        let is_type =
            spans.peek().is_some_and(|span| span.start as usize <= at) && !matches!(character, '\n' | '\r');
        text.push(if is_type { ' ' } else { character });
    }
    text
}

struct Types<'s> {
    script: &'s str,
    spans: Vec<Span>,
    /// Whether something of TypeScript runs.
    has_code: bool,
}

impl Types<'_> {
    fn between(&mut self, start: u32, end: u32) {
        self.spans.push(Span::new(start, end));
    }

    /// The words of a member before its name, and the mark behind it.
    fn member(&mut self, span: Span, key: Span) {
        let mut at = span.start;
        for word in
            self.text(span.start, key.start).split_inclusive(' ').map(str::to_owned).collect::<Vec<_>>()
        {
            let end = at + offset(word.len());
            if MODIFIERS.contains(&word.trim()) {
                self.between(at, end);
            }
            at = end;
        }
        self.mark(key.end, span.end);
    }

    /// A `?` or `!` that follows a name.
    fn mark(&mut self, start: u32, end: u32) {
        let text = self.text(start, end);
        let space = text.len() - text.trim_start().len();
        if text.trim_start().starts_with(['?', '!']) {
            let start = start + offset(space);
            self.between(start, start + 1);
        }
    }

    fn text(&self, start: u32, end: u32) -> &str {
        self.script.get(start as usize..end as usize).unwrap_or_default()
    }
}

impl<'a> Visit<'a> for Types<'_> {
    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.spans.push(it.span);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.spans.push(it.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.spans.push(it.span);
    }

    fn visit_ts_interface_declaration(&mut self, it: &TSInterfaceDeclaration<'a>) {
        self.spans.push(it.span);
    }

    fn visit_ts_type_alias_declaration(&mut self, it: &TSTypeAliasDeclaration<'a>) {
        self.spans.push(it.span);
    }

    fn visit_ts_index_signature(&mut self, it: &TSIndexSignature<'a>) {
        self.spans.push(it.span);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.between(it.expression.span().end, it.span.end);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.between(it.expression.span().end, it.span.end);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.between(it.span.start, it.expression.span().start);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.between(it.expression.span().end, it.span.end);
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        let behind = self.text(it.span.end, offset(self.script.len()));
        let comma = behind.find(',').filter(|at| behind[..*at].trim().is_empty());
        let end = comma.map_or(it.span.end, |at| it.span.end + offset(at) + 1);
        self.between(it.span.start, end);
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        self.has_code |= it.accessibility.is_some() || it.readonly || !it.decorators.is_empty();
        if it.optional {
            self.mark(it.pattern.span().end, it.span.end);
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        match it.declare {
            true => self.spans.push(it.span),
            false => walk::walk_variable_declaration(self, it),
        }
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.mark(it.id.span().end, it.span.end);
        }
        walk::walk_variable_declarator(self, it);
    }

    /// A function without a body is an overload, or is declared alone.
    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        match it.declare || it.body.is_none() {
            true => self.spans.push(it.span),
            false => walk::walk_function(self, it, flags),
        }
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        self.has_code |= it.r#abstract || !it.implements.is_empty() || !it.decorators.is_empty();
        match it.declare {
            true => self.spans.push(it.span),
            false => walk::walk_class(self, it),
        }
    }

    fn visit_method_definition(&mut self, it: &MethodDefinition<'a>) {
        if it.value.body.is_none() {
            self.spans.push(it.span);
            return;
        }
        self.member(it.span, it.key.span());
        walk::walk_method_definition(self, it);
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        if it.declare || it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition {
            self.spans.push(it.span);
            return;
        }
        self.member(it.span, it.key.span());
        walk::walk_property_definition(self, it);
    }

    fn visit_ts_enum_declaration(&mut self, it: &TSEnumDeclaration<'a>) {
        self.has_code |= !it.declare;
        self.spans.push(it.span);
    }

    fn visit_ts_namespace_declaration(&mut self, _: &TSNamespaceDeclaration<'a>) {
        self.has_code = true;
    }

    fn visit_ts_global_declaration(&mut self, it: &TSGlobalDeclaration<'a>) {
        self.spans.push(it.span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_become_spaces() {
        for (typed, plain) in [
            ("const x: string = 'a';", "const x         = 'a';"),
            ("let rows: Array<{id: number}> = [];", "let rows                      = [];"),
            ("interface A { b: string }\nreturn 1", "                         \nreturn 1"),
            ("type A = {\n b: string };\nreturn 1", "          \n             \nreturn 1"),
            (
                "const f = async (a: number, b?: string): Promise<void> => {};",
                "const f = async (a        , b         )                => {};",
            ),
            ("return (x as any).y", "return (x       ).y"),
            ("return x!.y! + <number>z", "return x .y  +         z"),
            ("const m = new Map<string, number>();", "const m = new Map                ();"),
            (
                "function f<T>(this: Window, x: T): T { return x }",
                "function f   (              x   )    { return x }",
            ),
            (
                "const o = {a: 1} satisfies Record<string, number>;",
                "const o = {a: 1}                                 ;",
            ),
            (
                "class A { private readonly x: number = 1; get(y?: string): number { return this.x } }",
                "class A {                  x         = 1; get(y         )         { return this.x } }",
            ),
            ("let é: string = 'ü'; await f()", "let é         = 'ü'; await f()"),
            ("let x!: number; declare const y: string; x", "let x         ;                          x"),
        ] {
            let stripped = without_types(typed);
            assert_eq!(stripped.as_deref(), Some(plain), "{typed}");
        }
    }

    #[test]
    fn what_runs_is_left() {
        for script in [
            "enum A { B }",
            "class A { constructor(private x: string) {} }",
            "return 1",
            "a b",
            "namespace A { export const b = 1 }",
        ] {
            assert_eq!(without_types(script), None, "{script}");
        }
    }
}
