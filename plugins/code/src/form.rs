//! Scripts as models write them, as the body of a function that returns their value.
//!
//! Models put a script into a fence, write a function that nothing calls, or end with an expression, as in a REPL. None of these
//! returns a value by itself, and a silent `null` looks like a result.

use boa_engine::ast::declaration::{Binding, Variable, VariableList};
use boa_engine::ast::expression::Identifier;
use boa_engine::ast::expression::access::PropertyAccess;
use boa_engine::ast::expression::operator::assign::AssignTarget;
use boa_engine::ast::function::FunctionBody;
use boa_engine::ast::{Declaration, Expression, Position, Spanned, Statement, StatementListItem};
use boa_engine::interner::Interner;
use boa_engine::parser::{self, Parser};
use boa_engine::{Context, Source};
use toolgate_sdk::Error;

use crate::failure;
use crate::types::without_types;

const RETURN: &str = "return ";

/// A script as the engine gets it.
pub struct Script {
    pub text: String,
    /// The place of a `return` that the model did not write.
    pub added: Option<Added>,
}

/// Text that was added on a line of the script.
#[derive(Clone, Copy)]
pub struct Added {
    pub line: u64,
    pub column: u64,
    pub columns: u64,
}

/// Reads a script, and lets it return the value of its last statement.
pub fn read(script: &str, context: &mut Context) -> Result<Script, Error> {
    let mut text = without_exports(&without_fence(script));
    let body = match parse(&text, context) {
        Ok(body) => body,
        Err(error) => {
            let untyped = without_types(&text).ok_or_else(|| failure::syntax(&error, &text))?;
            text = untyped;
            parse(&text, context).map_err(|error| failure::syntax(&error, &text))?
        }
    };
    Ok(match last_value(body.statements(), context.interner()) {
        None => Script { text, added: None },
        Some(Value::Expression(start)) => returning(text, start),
        Some(Value::Name(name)) => {
            let tail = format!("\nreturn typeof {name} === 'function' ? {name}() : {name};");
            Script { text: text + &tail, added: None }
        }
    })
}

/// Parses the text alone: one that closes the brackets around it would run before it is called.
fn parse(text: &str, context: &mut Context) -> Result<FunctionBody, parser::Error> {
    Parser::new(Source::from_bytes(text)).parse_function_body(context.interner_mut(), false, true)
}

/// The value of the last statement, where the script does not return one.
enum Value {
    /// An expression that begins here.
    Expression(Position),
    /// A function or a variable that is declared last.
    Name(String),
}

fn last_value(statements: &[StatementListItem], interner: &Interner) -> Option<Value> {
    let named = |name: Identifier| Some(Value::Name(interner.resolve(name.sym())?.to_string()));
    match statements.last()? {
        StatementListItem::Statement(statement) => match &**statement {
            Statement::Expression(expression) => Some(Value::Expression(start_of(expression))),
            Statement::Var(declared) => named(last_name(&declared.0)?),
            _ => None,
        },
        StatementListItem::Declaration(declared) => match &**declared {
            Declaration::Lexical(declared) => named(last_name(declared.variable_list())?),
            // A function after statements is a helper of theirs.
            Declaration::FunctionDeclaration(function) if declares_only(statements) => named(function.name()),
            Declaration::AsyncFunctionDeclaration(function) if declares_only(statements) => {
                named(function.name())
            }
            _ => None,
        },
    }
}

/// The place where an expression begins: that of a call is its arguments, for the parser.
fn start_of(expression: &Expression) -> Position {
    let first = match expression {
        Expression::Call(call) => Some(call.function()),
        Expression::PropertyAccess(PropertyAccess::Simple(access)) => Some(access.target()),
        Expression::Optional(optional) => Some(optional.target()),
        Expression::TaggedTemplate(template) => Some(template.tag()),
        Expression::Binary(binary) => Some(binary.lhs()),
        Expression::Conditional(conditional) => Some(conditional.condition()),
        Expression::Assign(assign) => match assign.lhs() {
            AssignTarget::Access(PropertyAccess::Simple(access)) => Some(access.target()),
            _ => None,
        },
        _ => None,
    };
    let start = expression.span().start();
    first.map_or(start, |first| start_of(first).min(start))
}

fn last_name(variables: &VariableList) -> Option<Identifier> {
    match variables.as_ref().last().map(Variable::binding)? {
        Binding::Identifier(name) => Some(*name),
        Binding::Pattern(_) => None,
    }
}

fn declares_only(statements: &[StatementListItem]) -> bool {
    statements.iter().all(|item| matches!(item, StatementListItem::Declaration(_)))
}

/// The script with a `return` at this place.
fn returning(text: String, at: Position) -> Script {
    let (line, column) = (at.line_number(), at.column_number());
    let start: usize = text.split_inclusive('\n').take(line as usize - 1).map(str::len).sum();
    let within =
        text[start..].char_indices().nth(column as usize - 1).map_or(text.len() - start, |(at, _)| at);
    let (before, after) = text.split_at(start + within);
    // A place that is not behind a statement would change the script.
    let is_behind = |end| before.trim_end_matches([' ', '\t']).ends_with(end);
    if !before.trim().is_empty() && !is_behind(['\n', ';', '}', '/']) {
        return Script { text, added: None };
    }
    let text = format!("{before}{RETURN}{after}");
    Script {
        text,
        added: Some(Added { line: line.into(), column: column.into(), columns: RETURN.len() as u64 }),
    }
}

/// The script without the fence of Markdown around it. Its lines keep their numbers.
fn without_fence(script: &str) -> String {
    let fenced = script.trim();
    let inner = fenced.strip_prefix("```").and_then(|rest| rest.trim_end().strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        Some((_, inner)) => format!("\n{inner}"),
        None => script.to_owned(),
    }
}

/// The script without the words of a module: its default export is what it returns. Columns stay.
fn without_exports(script: &str) -> String {
    let line = |line: &str| match line.strip_prefix("export ") {
        Some(rest) => match rest.strip_prefix("default ") {
            Some(rest) => format!("return         {rest}"),
            None => format!("       {rest}"),
        },
        None => line.to_owned(),
    };
    script.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
