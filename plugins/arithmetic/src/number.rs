//! Numbers that never lie: exact fractions, or two fractions between which the true value is.
//!
//! Every operation takes the outermost results that its operands allow, so certainty is kept. A number with equal
//! bounds is exact.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::Ratio;
use num_traits::{One, Signed, ToPrimitive, Zero, pow};

pub type Rational = Ratio<BigInt>;

/// What a number may have before and after its point together. Enough for `2500!`; the work for one operation on
/// numbers of this size stays well within a call's fuel.
pub const MAX_NUMBER_DIGITS: u64 = 10_000;

const MAX_BITS: u64 = MAX_NUMBER_DIGITS * 3_322 / 1_000;

/// Roots of a higher degree are nobody's question.
const MAX_DEGREE: u32 = 1_000;

/// How many decimal digits the bounds of an inexact number agree in, at least when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Precision {
    digits: u32,
}

/// A number, exact or between bounds.
#[derive(Clone, Debug)]
pub struct Number {
    low: Rational,
    high: Rational,
}

/// Why an operation has no result.
#[derive(Debug, PartialEq)]
pub enum Failure {
    /// Whatever the precision.
    Impossible(String),
    /// With this precision.
    Undecided,
}

pub type Outcome<T = Number> = Result<T, Failure>;

impl Precision {
    pub fn digits(digits: u32) -> Self {
        Self { digits: digits.min(4_000) }
    }
}

impl Number {
    pub fn exact(value: Rational) -> Self {
        Self { low: value.clone(), high: value }
    }

    pub fn whole(value: impl Into<BigInt>) -> Self {
        Self::exact(Ratio::from_integer(value.into()))
    }

    pub fn bounds(&self) -> (&Rational, &Rational) {
        (&self.low, &self.high)
    }

    /// The value, if it is exact.
    pub fn value(&self) -> Option<&Rational> {
        are_equal(&self.low, &self.high).then_some(&self.low)
    }

    /// The value, if it is an exact whole number.
    pub fn as_whole(&self) -> Option<&BigInt> {
        self.value().filter(|value| value.is_integer()).map(Ratio::numer)
    }

    fn between(low: Rational, high: Rational, precision: Precision) -> Outcome {
        if are_equal(&low, &high) {
            return Self::within_cap(low);
        }
        Ok(Self {
            low: Self::within_cap(widen(low, precision, false))?.low,
            high: Self::within_cap(widen(high, precision, true))?.high,
        })
    }

    fn within_cap(value: Rational) -> Outcome {
        if value.numer().bits().max(value.denom().bits()) > MAX_BITS {
            return Err(too_large(None));
        }
        Ok(Self::exact(value))
    }

    pub fn negate(&self) -> Self {
        Self { low: -&self.high, high: -&self.low }
    }

    pub fn add(&self, other: &Self, precision: Precision) -> Outcome {
        if let (Some(left), Some(right)) = (self.value(), other.value()) {
            return Self::within_cap(sum(left, right));
        }
        Self::between(sum(&self.low, &other.low), sum(&self.high, &other.high), precision)
    }

    pub fn subtract(&self, other: &Self, precision: Precision) -> Outcome {
        self.add(&other.negate(), precision)
    }

    pub fn multiply(&self, other: &Self, precision: Precision) -> Outcome {
        if let (Some(left), Some(right)) = (self.value(), other.value()) {
            return Self::within_cap(product(left, right));
        }
        let corners = [
            product(&self.low, &other.low),
            product(&self.low, &other.high),
            product(&self.high, &other.low),
            product(&self.high, &other.high),
        ];
        let (low, high) = outermost(corners);
        Self::between(low, high, precision)
    }

    pub fn divide(&self, other: &Self, precision: Precision) -> Outcome {
        if other.value().is_some_and(Zero::is_zero) {
            return Err(impossible("division by zero"));
        }
        if !other.low.is_positive() && !other.high.is_negative() {
            return Err(Failure::Undecided);
        }
        let inverse = Self { low: other.high.recip(), high: other.low.recip() };
        self.multiply(&inverse, precision)
    }

    /// The remainder that has the sign of the divisor.
    pub fn remainder(&self, divisor: &Self, precision: Precision) -> Outcome {
        let quotient = self.divide(divisor, precision)?.floor()?;
        self.subtract(&divisor.multiply(&quotient, precision)?, precision)
    }

    pub fn floor(&self) -> Outcome {
        self.decided(Ratio::floor)
    }

    pub fn ceil(&self) -> Outcome {
        self.decided(Ratio::ceil)
    }

    pub fn trunc(&self) -> Outcome {
        self.decided(Ratio::trunc)
    }

    /// Halves away from zero.
    pub fn round(&self) -> Outcome {
        self.decided(Ratio::round)
    }

    /// Halves to the even neighbour.
    pub fn round_half_even(&self) -> Outcome {
        self.decided(|value| {
            let rounded = value.round();
            let is_half = (value - value.trunc()).abs() == Ratio::new(1.into(), 2.into());
            if is_half && rounded.numer().is_odd() { rounded - value.signum() } else { rounded }
        })
    }

    /// Halves towards zero.
    pub fn round_half_down(&self) -> Outcome {
        self.decided(|value| {
            let half = Ratio::new(1.into(), 2.into());
            if value.is_negative() { (value + half).floor() } else { (value - half).ceil() }
        })
    }

    /// Away from zero.
    pub fn round_up(&self) -> Outcome {
        self.decided(|value| if value.is_negative() { value.floor() } else { value.ceil() })
    }

    /// A step function has a value only where both bounds are on the same step.
    fn decided(&self, step: impl Fn(&Rational) -> Rational) -> Outcome {
        let (low, high) = (step(&self.low), step(&self.high));
        if are_equal(&low, &high) { Ok(Self::exact(low)) } else { Err(Failure::Undecided) }
    }

    pub fn abs(&self) -> Self {
        if !self.low.is_negative() {
            self.clone()
        } else if !self.high.is_positive() {
            self.negate()
        } else {
            Self { low: Rational::zero(), high: greater(self.high.clone(), -&self.low) }
        }
    }

    pub fn min(&self, other: &Self) -> Self {
        Self {
            low: lesser(self.low.clone(), other.low.clone()),
            high: lesser(self.high.clone(), other.high.clone()),
        }
    }

    pub fn max(&self, other: &Self) -> Self {
        Self {
            low: greater(self.low.clone(), other.low.clone()),
            high: greater(self.high.clone(), other.high.clone()),
        }
    }

    pub fn power(&self, exponent: &Self, precision: Precision) -> Outcome {
        let exponent =
            exponent.value().ok_or_else(|| impossible("an exponent must be exact: round it first"))?;
        if exponent.is_integer() {
            return self.whole_power(exponent.numer(), precision);
        }
        if self.low.is_negative() {
            return Err(impossible("a negative number has no power with a fraction as exponent"));
        }
        let degree = exponent.denom().to_u32().filter(|degree| *degree <= MAX_DEGREE);
        let degree = degree
            .ok_or_else(|| impossible(format!("the denominator of an exponent is at most {MAX_DEGREE}")))?;
        self.root(degree, precision)?.whole_power(exponent.numer(), precision)
    }

    fn whole_power(&self, exponent: &BigInt, precision: Precision) -> Outcome {
        if exponent.is_negative() {
            let positive = self.whole_power(&-exponent, precision)?;
            return Self::whole(1).divide(&positive, precision);
        }
        if let Some(simple) = self.power_of_unit(exponent) {
            return Ok(simple);
        }
        let times = exponent.to_u64().ok_or_else(|| too_large(None))?;
        let digits = self.value().map_or(0.0, digits) * times as f64;
        if digits > MAX_NUMBER_DIGITS as f64 {
            return Err(too_large(Some(digits)));
        }
        self.multiplied(times, precision)
    }

    /// 0, 1 and -1 have powers of any size, and any number has its zeroth.
    fn power_of_unit(&self, exponent: &BigInt) -> Option<Self> {
        let base = self.value();
        if exponent.is_zero() {
            return Some(Self::whole(1));
        }
        let base = base?;
        if base.is_zero() || base.is_one() {
            return Some(self.clone());
        }
        (-base).is_one().then(|| if exponent.is_even() { Self::whole(1) } else { self.clone() })
    }

    fn multiplied(&self, mut times: u64, precision: Precision) -> Outcome {
        let mut square = self.clone();
        let mut power = Self::whole(1);
        loop {
            if times % 2 == 1 {
                power = power.multiply(&square, precision)?;
            }
            times /= 2;
            if times == 0 {
                return Ok(power);
            }
            square = square.multiply(&square, precision)?;
        }
    }

    /// The root of a degree: exact where there is one.
    pub fn root(&self, degree: u32, precision: Precision) -> Outcome {
        if degree == 0 || degree > MAX_DEGREE {
            return Err(impossible(format!("the degree of a root is between 1 and {MAX_DEGREE}")));
        }
        if self.high.is_negative() && degree % 2 == 1 {
            return Ok(self.negate().root(degree, precision)?.negate());
        }
        if self.low.is_negative() {
            let is_certain = self.high.is_negative();
            return Err(if is_certain {
                impossible("a negative number has no such root")
            } else {
                Failure::Undecided
            });
        }
        let low = root_between(&self.low, degree, precision);
        let high =
            if self.value().is_some() { low.clone() } else { root_between(&self.high, degree, precision) };
        Self::between(low.low, high.high, precision)
    }

    /// The product of the whole numbers up to this one.
    pub fn factorial(&self) -> Outcome {
        let whole = self.whole_or("a factorial")?;
        let count = whole.to_u64().ok_or_else(|| {
            if whole.is_negative() {
                impossible("a factorial needs a number that is not negative")
            } else {
                too_large(None)
            }
        })?;
        let mut product = BigInt::one();
        for factor in 2..=count {
            product *= factor;
            if product.bits() > MAX_BITS {
                return Err(too_large(None));
            }
        }
        Ok(Self::whole(product))
    }

    /// In how many ways `chosen` of these can be taken.
    pub fn choose(&self, chosen: &Self) -> Outcome {
        let (all, chosen) = (self.whole_or("choose")?, chosen.whole_or("choose")?);
        if chosen.is_negative() || all.is_negative() {
            return Err(impossible("`choose` needs numbers that are not negative"));
        }
        if chosen > all {
            return Ok(Self::whole(0));
        }
        let fewer = chosen.min(&(all - chosen)).to_u64().ok_or_else(|| too_large(None))?;
        let mut ways = BigInt::one();
        for step in 0..fewer {
            ways = ways * (all - step) / (step + 1);
            if ways.bits() > MAX_BITS {
                return Err(too_large(None));
            }
        }
        Ok(Self::whole(ways))
    }

    pub fn gcd(&self, other: &Self) -> Outcome {
        Ok(Self::whole(self.whole_or("gcd")?.gcd(other.whole_or("gcd")?)))
    }

    pub fn lcm(&self, other: &Self) -> Outcome {
        let multiple = self.whole_or("lcm")?.lcm(other.whole_or("lcm")?);
        Self::within_cap(Ratio::from_integer(multiple))
    }

    fn whole_or(&self, function: &str) -> Outcome<&BigInt> {
        self.as_whole().ok_or_else(|| impossible(format!("`{function}` needs whole numbers: round first")))
    }
}

pub fn impossible(message: impl Into<String>) -> Failure {
    Failure::Impossible(message.into())
}

fn too_large(digits: Option<f64>) -> Failure {
    let result = match digits {
        Some(digits) => format!("the result would have about {digits:.0} digits, more than"),
        None => "the result would have more digits than".to_owned(),
    };
    impossible(format!("{result} the {MAX_NUMBER_DIGITS} that are kept"))
}

/// How many digits a number has, roughly: only to refuse what is far too large, and to say by how much.
fn digits(value: &Rational) -> f64 {
    let logarithm = |part: &BigInt| {
        part.to_f64()
            .filter(|part| part.is_finite())
            .map_or(part.bits() as f64 * std::f64::consts::LOG10_2, |part| part.abs().log10())
    };
    logarithm(value.numer()).max(logarithm(value.denom()))
}

/// Compares by common denominator. The order that `Ratio` brings follows continued fractions by recursion, which for
/// numbers that are long and close exhausts the stack.
pub fn compare(left: &Rational, right: &Rational) -> Ordering {
    (left.numer() * right.denom()).cmp(&(right.numer() * left.denom()))
}

/// Fractions are kept in lowest terms, so equal ones look the same.
fn are_equal(left: &Rational, right: &Rational) -> bool {
    left.numer() == right.numer() && left.denom() == right.denom()
}

fn lesser(left: Rational, right: Rational) -> Rational {
    if compare(&left, &right).is_le() { left } else { right }
}

fn greater(left: Rational, right: Rational) -> Rational {
    if compare(&left, &right).is_ge() { left } else { right }
}

/// Whole numbers are by far the most common, and need no common denominator.
fn sum(left: &Rational, right: &Rational) -> Rational {
    if left.is_integer() && right.is_integer() {
        Ratio::from_integer(left.numer() + right.numer())
    } else {
        left + right
    }
}

fn product(left: &Rational, right: &Rational) -> Rational {
    if left.is_integer() && right.is_integer() {
        Ratio::from_integer(left.numer() * right.numer())
    } else {
        left * right
    }
}

fn outermost(values: [Rational; 4]) -> (Rational, Rational) {
    let [first, rest @ ..] = values;
    rest.into_iter()
        .fold((first.clone(), first), |(low, high), value| (lesser(low, value.clone()), greater(high, value)))
}

/// A bound with few digits that is no further in: keeps inexact numbers from growing with each operation.
fn widen(bound: Rational, precision: Precision, up: bool) -> Rational {
    let scale = scale_to(&bound, precision);
    let scaled = &bound * &scale;
    let rounded = if up { scaled.ceil() } else { scaled.floor() };
    rounded / scale
}

/// The power of ten that brings a number's significant digits before the point.
fn scale_to(value: &Rational, precision: Precision) -> Rational {
    let bits_before_point = value.numer().bits() as i64 - value.denom().bits() as i64;
    let digits_before_point = bits_before_point * 301 / 1_000;
    power_of_ten(i64::from(precision.digits) - digits_before_point)
}

pub fn power_of_ten(exponent: i64) -> Rational {
    // Nothing asks for more than a few times the digits that are kept.
    let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    let power = pow(BigInt::from(10), places);
    if exponent < 0 { Ratio::new_raw(BigInt::one(), power) } else { Ratio::from_integer(power) }
}

/// The root of a number that is not negative.
fn root_between(value: &Rational, degree: u32, precision: Precision) -> Number {
    if let Some(exact) = exact_root(value, degree) {
        return Number::exact(exact);
    }
    let bits = value.numer().bits() as i64 - value.denom().bits() as i64;
    let digits_of_root = bits * 301 / 1_000 / i64::from(degree);
    let places = i64::from(precision.digits) - digits_of_root;
    let scaled = (value * power_of_ten(places * i64::from(degree))).floor();
    let root = scaled.numer().nth_root(degree);
    let scale = power_of_ten(places);
    Number { low: Ratio::from_integer(root.clone()) / &scale, high: Ratio::from_integer(root + 1) / scale }
}

fn exact_root(value: &Rational, degree: u32) -> Option<Rational> {
    let (numerator, denominator) = (value.numer().nth_root(degree), value.denom().nth_root(degree));
    let is_exact = pow(numerator.clone(), degree as usize) == *value.numer()
        && pow(denominator.clone(), degree as usize) == *value.denom();
    is_exact.then(|| Ratio::new_raw(numerator, denominator))
}
