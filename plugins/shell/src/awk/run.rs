//! Runs the syntax tree of an awk program.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::record::{Record, Splitter};
use super::syntax::{Expression, Name, Operator, Program, Redirect, Statement, When};
use super::value::{Array, Cell, Value, count};
use super::{CONVFMT, FS, NF, OFS, RS, SUBSEP, empty_record, slot_text};
use crate::call::Call;
use crate::regular::{Flavor, Regular};
use crate::shell::{Outcome, Stop, is_name};
use crate::stream::{Input, Output};

/// Calls of functions in one another.
const MAX_DEPTH: u32 = 120;

/// The next step after a statement.
pub enum Flow {
    Next,
    Break,
    Continue,
    NextRecord,
    NextFile,
    Exit(i32),
    Return(Value),
}

pub struct Machine<'c, 's> {
    pub call: &'c mut Call<'s>,
    pub program: &'c Program,
    pub globals: Vec<Cell>,
    pub locals: Vec<Cell>,
    pub record: Record,
    pub inputs: VecDeque<String>,
    pub exit_code: Option<i32>,
    pub has_failed: bool,
    pub random: u64,
    pub seed: f64,
    pub current: Option<Input>,
    pub has_read: bool,
    ranges: Vec<bool>,
    depth: u32,
    splitter: (Rc<str>, Rc<Splitter>),
    regulars: HashMap<Rc<str>, Regular>,
    /// Open inputs of `getline`, and outputs of `print`, by name.
    pub readers: HashMap<Rc<str>, Input>,
    pub writers: HashMap<Rc<str>, (Redirect, Output, Vec<u8>)>,
}

pub fn fault<T>(message: impl Into<String>) -> Outcome<T> {
    Err(Stop::Fail(2, message.into()))
}

impl<'c, 's> Machine<'c, 's> {
    pub fn new(call: &'c mut Call<'s>, program: &'c Program) -> Self {
        Self {
            call,
            program,
            globals: vec![Cell::default(); program.globals.len()],
            locals: Vec::new(),
            record: empty_record(),
            inputs: VecDeque::new(),
            exit_code: None,
            has_failed: false,
            random: 1,
            seed: 0.0,
            current: None,
            has_read: false,
            ranges: vec![false; program.ranges],
            depth: 0,
            splitter: (" ".into(), Rc::new(Splitter::Blanks)),
            regulars: HashMap::new(),
            readers: HashMap::new(),
            writers: HashMap::new(),
        }
    }

    /// Sets a variable as `name=value` says.
    pub fn assign_argument(&mut self, assignment: &str) -> bool {
        let Some((name, value)) = assignment.split_once('=') else { return false };
        if let Some(slot) = self.program.globals.iter().position(|known| known == name && is_name(name)) {
            let value = crate::escape::decode(value, crate::escape::Kind::Shell).0;
            self.globals[slot] = Cell::Value(Value::Input(value.into()));
        }
        is_name(name)
    }

    pub fn format(&self) -> Rc<str> {
        slot_text(&self.globals, CONVFMT)
    }

    pub fn set_slot(&mut self, slot: usize, value: Value) {
        self.globals[slot] = Cell::Value(value);
    }

    pub fn add_one(&mut self, slot: usize) {
        let count = match &self.globals[slot] {
            Cell::Value(value) => value.number(),
            Cell::Array(_) => 0.0,
        };
        self.set_slot(slot, Value::Number(count + 1.0));
    }

    pub fn record_rules(&mut self) -> Outcome<Flow> {
        let program = self.program;
        for (when, body) in &program.rules {
            let is_met = match when {
                When::Begin | When::End => false,
                When::Always => true,
                When::If(condition) => self.holds(condition)?,
                When::Range(first, last, index) => {
                    let is_met = self.ranges[*index] || self.holds(first)?;
                    if is_met {
                        self.ranges[*index] = !self.holds(last)?;
                    }
                    is_met
                }
            };
            if !is_met {
                continue;
            }
            match self.rule(body.as_ref())? {
                Flow::NextRecord => break,
                Flow::NextFile => {
                    self.current = None;
                    break;
                }
                Flow::Exit(status) => return Ok(Flow::Exit(status)),
                _ => {}
            }
        }
        Ok(Flow::Next)
    }

    pub fn rule(&mut self, body: Option<&Statement>) -> Outcome<Flow> {
        match body {
            Some(body) => self.statement(body),
            None => {
                let text = self.record_text();
                self.call.line(text.as_bytes())?;
                Ok(Flow::Next)
            }
        }
    }

    pub fn record_text(&mut self) -> Rc<str> {
        let (joiner, format) = (slot_text(&self.globals, OFS), self.format());
        self.record.text(&joiner, &format)
    }

    pub fn split_record(&mut self) -> Outcome<()> {
        if !self.record.is_split() {
            let separator = slot_text(&self.globals, FS);
            if *separator != *self.splitter.0 {
                let paragraphs = slot_text(&self.globals, RS).is_empty();
                let source = if paragraphs && separator.len() == 1 && &*separator != " " {
                    format!("[\n{separator}]").into()
                } else {
                    Rc::clone(&separator)
                };
                self.splitter = (separator, Rc::new(Splitter::new(&source)?));
            }
            let splitter = Rc::clone(&self.splitter.1);
            self.record.split(&splitter);
        }
        Ok(())
    }

    pub fn regular(&mut self, source: &Rc<str>) -> Outcome<Regular> {
        if let Some(regular) = self.regulars.get(source) {
            return Ok(regular.clone());
        }
        let regular = Regular::new(source, Flavor::Awk, false)?;
        self.regulars.insert(Rc::clone(source), regular.clone());
        Ok(regular)
    }

    /// The pattern that an expression is.
    pub fn pattern(&mut self, expression: &Expression) -> Outcome<Regular> {
        if let Expression::Regular(pattern) = expression {
            return Ok(pattern.regular.clone());
        }
        let source = self.evaluate(expression)?.text(&self.format());
        self.regular(&source)
    }

    fn block(&mut self, statements: &[Statement]) -> Outcome<Flow> {
        for statement in statements {
            let flow = self.statement(statement)?;
            if !matches!(flow, Flow::Next) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement) -> Outcome<Flow> {
        match statement {
            Statement::Expression(expression) => self.evaluate(expression).map(|_| Flow::Next),
            Statement::Print { arguments, is_format, target } => {
                self.print(arguments, *is_format, target.as_ref()).map(|()| Flow::Next)
            }
            Statement::Block(statements) => self.block(statements),
            Statement::If(condition, then, otherwise) => {
                let branch = if self.holds(condition)? { Some(then) } else { otherwise.as_ref() };
                branch.map_or(Ok(Flow::Next), |branch| self.statement(branch))
            }
            Statement::While(condition, body) => self.repeat(Some(condition), None, body),
            Statement::DoWhile(body, condition) => match leaves(self.statement(body)?) {
                Some(flow) => Ok(flow),
                None => self.repeat(Some(condition), None, body),
            },
            Statement::For(first, condition, step, body) => {
                if let Some(first) = first {
                    self.statement(first)?;
                }
                self.repeat(condition.as_ref(), step.as_deref(), body)
            }
            Statement::ForIn(variable, array, body) => self.for_each_key(variable, *array, body),
            Statement::Delete(array, subscript) => {
                let array = self.array(*array)?;
                match subscript {
                    Some(subscript) => drop(array.borrow_mut().shift_remove(&self.key(subscript)?)),
                    None => array.borrow_mut().clear(),
                }
                Ok(Flow::Next)
            }
            Statement::Next => Ok(Flow::NextRecord),
            Statement::NextFile => Ok(Flow::NextFile),
            Statement::Exit(code) => self.exit(code.as_ref()),
            Statement::Return(Some(value)) => self.evaluate(value).map(Flow::Return),
            Statement::Return(None) => Ok(Flow::Return(Value::Unset)),
            Statement::Break => Ok(Flow::Break),
            Statement::Continue => Ok(Flow::Continue),
        }
    }

    /// The loop of `for (key in array)`, over the keys that the array has at first.
    fn for_each_key(&mut self, variable: &Expression, array: Name, body: &Statement) -> Outcome<Flow> {
        let keys: Vec<Rc<str>> = self.array(array)?.borrow().keys().cloned().collect();
        for key in keys {
            self.assign(variable, Value::Input(key))?;
            if let Some(flow) = leaves(self.statement(body)?) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// The loop of `while` and `for`.
    fn repeat(
        &mut self,
        condition: Option<&Expression>,
        step: Option<&Statement>,
        body: &Statement,
    ) -> Outcome<Flow> {
        loop {
            if let Some(condition) = condition
                && !self.holds(condition)?
            {
                return Ok(Flow::Next);
            }
            if let Some(flow) = leaves(self.statement(body)?) {
                return Ok(flow);
            }
            if let Some(step) = step {
                self.statement(step)?;
            }
        }
    }

    /// `exit`: without a code the one of an `exit` before it, in `END`.
    fn exit(&mut self, code: Option<&Expression>) -> Outcome<Flow> {
        if let Some(code) = code {
            #[expect(clippy::cast_possible_truncation, reason = "a status is a byte")]
            let code = self.evaluate(code)?.number() as i64 & 255;
            self.exit_code = i32::try_from(code).ok();
        }
        Ok(Flow::Exit(self.exit_code.unwrap_or(0)))
    }

    pub fn evaluate(&mut self, expression: &Expression) -> Outcome<Value> {
        Ok(match expression {
            Expression::Number(number) => Value::Number(*number),
            Expression::Text(text) => Value::Text(Rc::clone(text)),
            Expression::Group(inner) => self.evaluate(inner)?,
            Expression::Regular(pattern) => {
                Value::from(pattern.regular.is_match(self.record_text().as_bytes()))
            }
            Expression::Variable(name) => self.variable(*name)?,
            Expression::Field(index) => self.field(index)?,
            Expression::Entry(name, subscript) => {
                let key = self.key(subscript)?;
                self.array(*name)?.borrow_mut().entry(key).or_default().clone()
            }
            Expression::Assign(operator, target, value) => self.assignment(*operator, target, value)?,
            Expression::Conditional(parts) => {
                let branch = if self.holds(&parts[0])? { &parts[1] } else { &parts[2] };
                self.evaluate(branch)?
            }
            Expression::And(sides) => Value::from(self.holds(&sides[0])? && self.holds(&sides[1])?),
            Expression::Or(sides) => Value::from(self.holds(&sides[0])? || self.holds(&sides[1])?),
            Expression::Not(inner) => Value::from(!self.holds(inner)?),
            Expression::Negate(inner) => Value::Number(-self.evaluate(inner)?.number()),
            Expression::ToNumber(inner) => Value::Number(self.evaluate(inner)?.number()),
            Expression::Binary(operator, sides) => self.binary(*operator, &sides[0], &sides[1])?,
            Expression::Match(is_negated, sides) => {
                Value::from(self.is_match(&sides[0], &sides[1])? != *is_negated)
            }
            Expression::In(subscript, name) => {
                let key = self.key(subscript)?;
                Value::from(self.array(*name)?.borrow().contains_key(&key))
            }
            Expression::Concatenation(parts) => self.concatenate(parts)?,
            Expression::Step { target, by, is_prefix } => self.step(target, *by, *is_prefix)?,
            Expression::Builtin(builtin, arguments) => self.builtin(*builtin, arguments)?,
            Expression::Call(name, arguments) => self.call_function(name, arguments)?,
            Expression::Getline { source, target } => self.getline(source, target.as_deref())?,
        })
    }

    fn holds(&mut self, condition: &Expression) -> Outcome<bool> {
        Ok(self.evaluate(condition)?.holds())
    }

    fn variable(&mut self, name: Name) -> Outcome<Value> {
        if matches!(name, Name::Global(NF)) {
            self.split_record()?;
            return Ok(count(self.record.count()));
        }
        match self.cell(name) {
            Cell::Value(value) => Ok(value.clone()),
            Cell::Array(_) => fault("an array is used as a value"),
        }
    }

    /// Assigns a value; with an operator (`+=`), that of the target and the given one.
    fn assignment(
        &mut self,
        operator: Option<Operator>,
        target: &Expression,
        value: &Expression,
    ) -> Outcome<Value> {
        let mut value = self.evaluate(value)?;
        if let Some(operator) = operator {
            let old = self.evaluate(target)?.number();
            value = Value::Number(calculate(operator, old, value.number())?);
        }
        self.assign(target, value.clone())?;
        Ok(value)
    }

    /// Changes a number. Returns the new one for a prefix, or else the old one.
    fn step(&mut self, target: &Expression, by: f64, is_prefix: bool) -> Outcome<Value> {
        let old = self.evaluate(target)?.number();
        self.assign(target, Value::Number(old + by))?;
        Ok(Value::Number(if is_prefix { old + by } else { old }))
    }

    fn is_match(&mut self, text: &Expression, pattern: &Expression) -> Outcome<bool> {
        let text = self.evaluate(text)?.text(&self.format());
        Ok(self.pattern(pattern)?.is_match(text.as_bytes()))
    }

    fn concatenate(&mut self, parts: &[Expression]) -> Outcome<Value> {
        let format = self.format();
        let mut text = String::new();
        for part in parts {
            text.push_str(&self.evaluate(part)?.show(&format));
        }
        Ok(Value::from(text))
    }

    fn binary(&mut self, operator: Operator, left: &Expression, right: &Expression) -> Outcome<Value> {
        let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
        let order = |machine: &Self| left.compare(&right, &machine.format());
        Ok(match operator {
            Operator::Less => Value::from(order(self).is_lt()),
            Operator::LessOrEqual => Value::from(order(self).is_le()),
            Operator::Equal => Value::from(order(self).is_eq()),
            Operator::NotEqual => Value::from(order(self).is_ne()),
            Operator::Greater => Value::from(order(self).is_gt()),
            Operator::GreaterOrEqual => Value::from(order(self).is_ge()),
            _ => Value::Number(calculate(operator, left.number(), right.number())?),
        })
    }

    fn cell(&mut self, name: Name) -> &mut Cell {
        match name {
            Name::Global(index) => &mut self.globals[index],
            Name::Local(index) => &mut self.locals[index],
        }
    }

    /// The array of a name, made if there is nothing yet.
    pub fn array(&mut self, name: Name) -> Outcome<Array> {
        let cell = self.cell(name);
        if let Cell::Value(Value::Unset) = cell {
            *cell = Cell::Array(Array::default());
        }
        match cell {
            Cell::Array(array) => Ok(Rc::clone(array)),
            Cell::Value(_) => fault("a value is used as an array"),
        }
    }

    pub fn key(&mut self, subscript: &[Expression]) -> Outcome<Rc<str>> {
        let format = self.format();
        let mut keys = Vec::with_capacity(subscript.len());
        for part in subscript {
            keys.push(self.evaluate(part)?.text(&format));
        }
        match keys.as_slice() {
            [key] => Ok(Rc::clone(key)),
            keys => Ok(keys.join(&*slot_text(&self.globals, SUBSEP)).into()),
        }
    }

    fn field_index(&mut self, index: &Expression) -> Outcome<usize> {
        let index = self.evaluate(index)?.number();
        if !(0.0..1e9).contains(&index) {
            return fault(format!("attempt to access field {index}"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in the range")]
        Ok(index as usize)
    }

    fn field(&mut self, index: &Expression) -> Outcome<Value> {
        let index = self.field_index(index)?;
        if index == 0 {
            return Ok(Value::Input(self.record_text()));
        }
        self.split_record()?;
        Ok(self.record.field(index))
    }

    pub fn assign(&mut self, target: &Expression, value: Value) -> Outcome<()> {
        match target {
            Expression::Group(inner) => return self.assign(inner, value),
            Expression::Variable(Name::Global(NF)) => {
                self.split_record()?;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a count of fields, which is limited"
                )]
                self.record.set_count(value.number() as usize)?;
            }
            Expression::Variable(name) => match self.cell(*name) {
                Cell::Array(_) => return fault("an array is used as a value"),
                cell => *cell = Cell::Value(value),
            },
            Expression::Field(index) => match self.field_index(index)? {
                0 => self.record = Record::new(value.text(&self.format())),
                index => {
                    self.split_record()?;
                    self.record.set_field(index, value)?;
                }
            },
            Expression::Entry(name, subscript) => {
                let key = self.key(subscript)?;
                self.array(*name)?.borrow_mut().insert(key, value);
            }
            _ => return fault("nothing can be assigned to an expression"),
        }
        Ok(())
    }

    fn call_function(&mut self, name: &str, arguments: &[Expression]) -> Outcome<Value> {
        let Some(function) = self.program.functions.get(name).cloned() else {
            return fault(format!("function `{name}' is not defined"));
        };
        if arguments.len() > function.parameters {
            return fault(format!("function `{name}' is called with more arguments than it has"));
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fault(format!("functions are called more than {MAX_DEPTH} deep"));
        }
        let mut cells = Vec::with_capacity(function.parameters);
        let mut unset = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            cells.push(match argument {
                Expression::Variable(name) if !matches!(name, Name::Global(NF)) => {
                    let cell = self.cell(*name).clone();
                    if let Cell::Value(Value::Unset) = cell {
                        unset.push((index, *name));
                    }
                    cell
                }
                _ => Cell::Value(self.evaluate(argument)?),
            });
        }
        cells.resize(function.parameters, Cell::default());
        let locals = std::mem::replace(&mut self.locals, cells);
        let flow = self.statement(&function.body);
        let cells = std::mem::replace(&mut self.locals, locals);
        self.depth -= 1;
        // An unset variable that the function used as an array is that array.
        for (index, name) in unset {
            if let Cell::Array(array) = &cells[index] {
                *self.cell(name) = Cell::Array(Rc::clone(array));
            }
        }
        match flow? {
            Flow::Return(value) => Ok(value),
            Flow::Exit(_) => Err(Stop::Exit(self.exit_code.unwrap_or(0))),
            _ => Ok(Value::Unset),
        }
    }
}

/// The flow that leaves a loop, or none where it goes on.
fn leaves(flow: Flow) -> Option<Flow> {
    match flow {
        Flow::Next | Flow::Continue => None,
        Flow::Break => Some(Flow::Next),
        flow => Some(flow),
    }
}

fn calculate(operator: Operator, left: f64, right: f64) -> Outcome<f64> {
    Ok(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide | Operator::Remainder if right == 0.0 => return fault("division by zero"),
        Operator::Divide => left / right,
        Operator::Remainder => left % right,
        _ => left.powf(right),
    })
}
