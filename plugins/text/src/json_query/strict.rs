//! Where `jaq` answers and `jq` fails: a division by zero, and a number as the key of an object.
//!
//! Both come from data that is not as the filter's writer thinks, and the answers, the largest number and null, would pass
//! for results. So the filter is rewritten before it is compiled: its divisions and its indices go through functions
//! that look first. What stands within a text goes through one as well, that writes it as `jq` does.

use std::iter;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::native::{Fun, bome, v};
use jaq_core::ops::Math;
use jaq_core::path::{Opt, Part, Path};
use jaq_core::{Exn, Native};
use jaq_json::{Error, Num, Val};

use super::functions::Query;
use super::written::TO_TEXT;

/// The variable that keeps a divisor or an index. No filter can name it, for it is no word.
const KEPT: &str = "$ kept";

/// What fails on a divisor that is zero, and is a division else.
pub const DIVIDE: &str = " divide";

/// The same for the remainder.
pub const REMAINDER: &str = " remainder";

/// What fails on an object that is indexed by anything but a text, and is `.` else, also within a path.
const INDEXED: &str = "_indexed";

/// The same for `.[0]?`, where a failure is nothing.
const INDEXED_OPTIONAL: &str = "_indexed_optional";

/// More indices one after the other are no question, and each of them is a step deeper.
const MAX_CHECKED: usize = 16;

type Filter<'s> = Term<&'s str>;

pub fn divide(left: Val, right: Val) -> Result<Val, Error> {
    check_divisor(&left, &right)?;
    left / right
}

pub fn remainder(left: Val, right: Val) -> Result<Val, Error> {
    let (Val::Num(dividend), Val::Num(divisor)) = (&left, &right) else { return left % right };
    // As in `jq`, which takes the remainder of the whole parts.
    let (Some(dividend), Some(divisor)) = (whole(dividend), whole(divisor)) else {
        return Ok(Val::from(f64::NAN));
    };
    if divisor == Num::Int(0) {
        return Err(zero_divisor(&left, &right));
    }
    Ok(Val::Num(dividend % divisor))
}

/// Without the fraction. None is what is not a number.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a float beyond the range becomes the end of it, as in jq"
)]
fn whole(number: &Num) -> Option<Num> {
    let float = match number {
        Num::Int(_) | Num::BigInt(_) => return Some(number.clone()),
        Num::Float(number) => *number,
        Num::Dec(digits) => digits.parse().unwrap_or(f64::NAN),
    };
    (!float.is_nan()).then(|| Num::from_integral(float as i128))
}

/// The functions for indices, which are paths as well.
pub fn functions() -> [Fun<Query>; 2] {
    let indexed = Native::new(|mut cv| {
        let key = cv.0.pop_var();
        bome(check_key(&cv.1, &key).map(|()| cv.1))
    });
    let indexed = indexed
        .with_paths(|mut cv| {
            let key = cv.0.pop_var();
            Box::new(iter::once(check_key(&cv.1.0, &key).map(|()| cv.1).map_err(Exn::from)))
        })
        .with_update(|mut cv, update| {
            let key = cv.0.pop_var();
            match check_key(&cv.1, &key) {
                Ok(()) => update(cv.1),
                Err(error) => bome(Err(error)),
            }
        });
    let optional = Native::new(|mut cv| {
        let key = cv.0.pop_var();
        Box::new(check_key(&cv.1, &key).is_ok().then_some(Ok(cv.1)).into_iter())
    });
    let optional = optional
        .with_paths(|mut cv| {
            let key = cv.0.pop_var();
            Box::new(check_key(&cv.1.0, &key).is_ok().then_some(Ok(cv.1)).into_iter())
        })
        .with_update(|mut cv, update| {
            let key = cv.0.pop_var();
            if check_key(&cv.1, &key).is_ok() { update(cv.1) } else { bome(Ok(cv.1)) }
        });
    [(INDEXED, v(1), indexed), (INDEXED_OPTIONAL, v(1), optional)]
}

fn check_key(value: &Val, key: &Val) -> Result<(), Error> {
    match (value, key) {
        (Val::Obj(_), Val::TStr(_) | Val::BStr(_)) => Ok(()),
        (Val::Obj(_), key) => Err(Error::str(format!(
            "an object has no entry {key}, for its keys are texts: write it as .[\"{key}\"], or take its values with .[]"
        ))),
        _ => Ok(()),
    }
}

fn check_divisor(left: &Val, right: &Val) -> Result<(), Error> {
    match (left, right) {
        (Val::Num(_), Val::Num(divisor)) if *divisor == Num::Int(0) => Err(zero_divisor(left, right)),
        _ => Ok(()),
    }
}

fn zero_divisor(left: &Val, right: &Val) -> Error {
    Error::str(format!(
        "{left} cannot be divided by {right}: leave such values out with `select(. != 0)`, or give another value for \
         them with `if … then … else … end`"
    ))
}

/// Rewrites a filter, and all that is within it. In place, for a filter may be deep, and the stack is not.
pub fn rewrite(filter: &mut Filter<'_>) {
    match filter {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) | Term::Arr(None) => {}
        Term::Str(format, parts) => {
            let is_plain = format.is_none();
            parts.iter_mut().for_each(|part| rewrite_part(part, is_plain));
        }
        Term::Obj(entries) => {
            for (key, value) in entries {
                rewrite(key);
                value.iter_mut().for_each(rewrite);
            }
        }
        Term::Arr(Some(term)) | Term::Neg(term) | Term::Label(_, term) => rewrite(term),
        Term::BinOp(left, operator, right) => {
            rewrite(left);
            rewrite(right);
            if let BinaryOp::Pipe(Some(pattern)) = operator {
                rewrite_pattern(pattern);
            }
            divide_safely(filter);
        }
        Term::Fold(_, source, pattern, steps) => {
            rewrite(source);
            rewrite_pattern(pattern);
            steps.iter_mut().for_each(rewrite);
        }
        Term::TryCatch(term, handler) => {
            rewrite(term);
            handler.iter_mut().for_each(|handler| rewrite(handler));
        }
        Term::IfThenElse(branches, otherwise) => {
            for (test, then) in branches {
                rewrite(test);
                rewrite(then);
            }
            otherwise.iter_mut().for_each(|otherwise| rewrite(otherwise));
        }
        Term::Def(definitions, term) => {
            definitions.iter_mut().for_each(|definition| rewrite(&mut definition.body));
            rewrite(term);
        }
        Term::Call(_, arguments) => arguments.iter_mut().for_each(rewrite),
        Term::Path(term, Path(parts)) => {
            rewrite(term);
            for (part, _) in parts {
                match part {
                    Part::Index(index) => rewrite(index),
                    Part::Range(from, to) => from.iter_mut().chain(to).for_each(rewrite),
                }
            }
            index_safely(filter);
        }
    }
}

fn rewrite_part(part: &mut StrPart<&str, Filter<'_>>, is_plain: bool) {
    if let StrPart::Term(term) = part {
        rewrite(term);
        // A format, as in `@csv "\(.a)"`, makes a text by itself.
        if is_plain {
            let value = Box::new(std::mem::take(term));
            *term = Term::BinOp(value, BinaryOp::Pipe(None), Box::new(Term::Call(TO_TEXT, Vec::new())));
        }
    }
}

fn rewrite_pattern(pattern: &mut Pattern<&str>) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(entries) => entries.iter_mut().for_each(rewrite_pattern),
        Pattern::Obj(entries) => {
            for (key, entry) in entries {
                rewrite(key);
                rewrite_pattern(entry);
            }
        }
    }
}

/// `l / r` becomes a call, and `l /= r` becomes `r as $kept | l |= . / $kept`.
#[inline(never)]
fn divide_safely(filter: &mut Filter<'_>) {
    let Term::BinOp(left, BinaryOp::Math(math) | BinaryOp::UpdateMath(math), right) = filter else { return };
    let name = match math {
        Math::Div => DIVIDE,
        Math::Rem => REMAINDER,
        Math::Add | Math::Sub | Math::Mul => return,
    };
    let (left, right) = (std::mem::take(&mut **left), std::mem::take(&mut **right));
    *filter = if matches!(filter, Term::BinOp(_, BinaryOp::Math(_), _)) {
        Term::Call(name, vec![left, right])
    } else {
        let divided = Term::Call(name, vec![Term::Id, Term::Var(KEPT)]);
        kept(right, Term::BinOp(Box::new(left), BinaryOp::Update, Box::new(divided)))
    };
}

fn kept<'s>(value: Filter<'s>, then: Filter<'s>) -> Filter<'s> {
    Term::BinOp(Box::new(value), BinaryOp::Pipe(Some(Pattern::Var(KEPT))), Box::new(then))
}

/// `t[i]` becomes `i as $kept | (t | _indexed($kept))[$kept]`. The literal keys of most filters stay as they are.
#[inline(never)]
fn index_safely(filter: &mut Filter<'_>) {
    let Term::Path(term, Path(parts)) = filter else { return };
    let (mut term, parts) = (std::mem::take(&mut **term), std::mem::take(parts));
    let mut safe = Vec::new();
    let mut checked = 0;
    for (part, optional) in parts {
        let index = match part {
            Part::Index(index) if !matches!(index, Term::Str(..)) && checked < MAX_CHECKED => index,
            part => {
                safe.push((part, optional));
                continue;
            }
        };
        if !safe.is_empty() {
            term = Term::Path(Box::new(term), Path(std::mem::take(&mut safe)));
        }
        let check = match optional {
            Opt::Optional => INDEXED_OPTIONAL,
            Opt::Essential => INDEXED,
        };
        checked += 1;
        // A number means the same wherever it stands; all else is looked at once, and before the path.
        let is_literal = matches!(index, Term::Num(_));
        let key = if is_literal { index.clone() } else { Term::Var(KEPT) };
        let check = Term::Call(check, vec![key.clone()]);
        let base = Term::BinOp(Box::new(term), BinaryOp::Pipe(None), Box::new(check));
        term = Term::Path(Box::new(base), Path(vec![(Part::Index(key), optional)]));
        if !is_literal {
            term = kept(index, term);
        }
    }
    *filter = if safe.is_empty() { term } else { Term::Path(Box::new(term), Path(safe)) };
}
