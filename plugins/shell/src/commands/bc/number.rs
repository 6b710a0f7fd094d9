//! Decimal numbers with a scale, whose operations round towards zero.

use dashu_base::{Abs, BitTest, SquareRoot, UnsignedAbs};
use dashu_float::DBig;
use dashu_int::IBig;

use crate::shell::{Outcome, fail};

/// Maximum number of digits, and maximum of `scale`, so that no operation takes the whole fuel of a call.
pub const MAX_DIGITS: usize = 20_000;

/// Maximum precision of a function of `-l`, which takes a time with its square.
const MAX_PRECISION: usize = 2_000;

/// Digits in a line of output, before the backslash that continues it.
const LINE_DIGITS: usize = 68;

/// `mantissa / 10^scale`
#[derive(Clone, Debug, Default)]
pub struct Number {
    pub mantissa: IBig,
    scale: usize,
}

impl Number {
    pub fn new(mantissa: impl Into<IBig>, scale: usize) -> Self {
        Self { mantissa: mantissa.into(), scale }
    }

    /// Reads the digits of a number in a base from 2 to 16. A larger digit is the largest one, unless it is alone.
    pub fn parse(text: &str, base: usize) -> Outcome<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if fraction.contains('.') || !fraction.is_empty() && base != 10 {
            return fail(format!("`{text}` is no number in base {base} of this shell"));
        }
        let radix = if text.len() == 1 { 16 } else { u32::try_from(base).unwrap_or(10) };
        let largest = |digit: char| char::from_digit(digit.to_digit(16)?.min(radix - 1), 16);
        let digits: String = whole.chars().chain(fraction.chars()).filter_map(largest).collect();
        Self::new(IBig::from_str_radix(&digits, radix).unwrap_or_default(), fraction.len()).check_digits()
    }

    fn check_digits(self) -> Outcome<Self> {
        // A digit takes 3.3 bits.
        let is_small = self.mantissa.bit_len() / 10 * 3 <= MAX_DIGITS && self.scale <= MAX_DIGITS;
        if is_small { Ok(self) } else { fail(format!("a number has more than {MAX_DIGITS} digits")) }
    }

    /// The mantissa with another scale.
    fn to_scale(&self, scale: usize) -> IBig {
        let power = |exponent| IBig::from(10).pow(exponent);
        &self.mantissa * power(scale.saturating_sub(self.scale)) / power(self.scale.saturating_sub(scale))
    }

    /// The number without its fraction, if it is small enough for a count.
    pub fn to_count(&self) -> Option<usize> {
        usize::try_from(self.to_scale(0)).ok()
    }

    pub fn operate(&self, operator: &str, other: &Self, scale: usize) -> Outcome<Self> {
        let common = self.scale.max(other.scale);
        let (left, right) = (self.to_scale(common), other.to_scale(common));
        let quotient = || self.to_scale(scale + other.scale) / &other.mantissa;
        let (mantissa, scale) = match operator {
            "+" => (left + right, common),
            "-" => (left - right, common),
            "*" => {
                let product = Self::new(&self.mantissa * &other.mantissa, self.scale + other.scale);
                let scale = product.scale.min(scale.max(common));
                (product.to_scale(scale), scale)
            }
            "/" | "%" if other.mantissa.is_zero() => return fail("Divide by zero"),
            "/" => (quotient(), scale),
            "%" => {
                let product = Self::new(quotient() * &other.mantissa, scale + other.scale);
                return self.operate("-", &product, scale);
            }
            "^" => return self.raise(other, scale),
            "==" => ((left == right).into(), 0),
            "!=" => ((left != right).into(), 0),
            "<" => ((left < right).into(), 0),
            "<=" => ((left <= right).into(), 0),
            ">" => ((left > right).into(), 0),
            ">=" => ((left >= right).into(), 0),
            "&&" => ((!left.is_zero() && !right.is_zero()).into(), 0),
            _ => ((!left.is_zero() || !right.is_zero()).into(), 0),
        };
        Self::new(mantissa, scale).check_digits()
    }

    fn raise(&self, exponent: &Self, scale: usize) -> Outcome<Self> {
        let whole = Self::new(exponent.to_scale(0).abs(), 0);
        if whole.to_scale(exponent.scale) != exponent.mantissa.clone().abs() {
            return fail("a power needs a whole exponent: use `e(y*l(x))` with `bc -l`");
        }
        let count = whole.to_count().unwrap_or(usize::MAX);
        let bits = self.mantissa.bit_len().saturating_sub(1).max(3 * self.scale);
        if bits.saturating_mul(count) > MAX_DIGITS * 10 / 3 {
            return fail(format!("a power has more than {MAX_DIGITS} digits"));
        }
        let power = Self::new(self.mantissa.pow(count), self.scale * count);
        if exponent.mantissa < IBig::ZERO {
            return Self::new(1, 0).operate("/", &power, scale);
        }
        let scale = power.scale.min(scale.max(self.scale));
        Ok(Self::new(power.to_scale(scale), scale))
    }

    /// Calls a function of bc, or one of `-l`: sine, cosine, arctangent, logarithm or exponential.
    pub fn call(&self, name: &str, scale: usize, has_library: bool) -> Outcome<Self> {
        let digits = self.mantissa.clone().abs().to_string().trim_start_matches('0').len();
        let is_negative = self.mantissa < IBig::ZERO;
        let function: fn(&DBig) -> DBig = match name {
            "length" => return Ok(Self::new(digits.max(self.scale).max(1), 0)),
            "scale" => return Ok(Self::new(self.scale, 0)),
            "sqrt" if is_negative => return fail("Square root of a negative number"),
            "sqrt" => {
                let scale = scale.max(self.scale);
                return Ok(Self::new(self.to_scale(2 * scale).unsigned_abs().sqrt(), scale));
            }
            "s" if has_library => DBig::sin,
            "c" if has_library => DBig::cos,
            "a" if has_library => DBig::atan,
            "e" if has_library => DBig::exp,
            "l" if has_library && !is_negative && !self.mantissa.is_zero() => DBig::ln,
            "l" if has_library => return fail("l needs a number above 0"),
            _ => return fail(format!("Function {name} not defined: `bc -l` has s c a l e")),
        };
        // The last 12 digits are dropped. A result of `e` has fewer before the point than half its argument.
        let whole = usize::try_from(self.to_scale(0).abs()).unwrap_or(usize::MAX);
        let precision = digits + scale + 12 + if name == "e" { whole / 2 } else { 0 };
        if precision > MAX_PRECISION {
            return fail(format!("the argument of {name} or the scale is too large for this shell"));
        }
        let x = DBig::from_parts(self.mantissa.clone(), -self.scale.cast_signed());
        let result = function(&x.with_precision(precision).value()) << scale.cast_signed();
        Ok(Self::new(result.into_repr().to_int().value(), scale))
    }

    /// The text in a base from 2 to 16, with long lines continued.
    pub fn show(&self, base: usize) -> Outcome<String> {
        if self.mantissa.is_zero() {
            return Ok("0".to_owned());
        }
        if self.scale > 0 && base != 10 {
            return fail(format!("a fraction in base {base} is not supported by this shell"));
        }
        let digits = self.mantissa.clone().abs().in_radix(u8::try_from(base).unwrap_or(10)).to_string();
        let digits = format!("{:0>width$}", digits.to_ascii_uppercase(), width = self.scale);
        let (whole, fraction) = digits.split_at(digits.len() - self.scale);
        let sign = if self.mantissa < IBig::ZERO { "-" } else { "" };
        let text = format!("{sign}{whole}{}{fraction}", if self.scale > 0 { "." } else { "" });
        let width = if text.len() <= LINE_DIGITS + 1 { text.len() } else { LINE_DIGITS };
        let lines = text.as_bytes().chunks(width).map(String::from_utf8_lossy);
        Ok(lines.collect::<Vec<_>>().join("\\\n"))
    }
}
