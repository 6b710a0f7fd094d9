//! The position of a caller in its trace (W3C Trace Context).

use std::fmt;

/// Longest `tracestate` that is passed on, in bytes: what the specification asks for at least.
const STATE_BYTES: usize = 512;

/// `traceparent` and `tracestate`, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub(super) trace: u128,
    pub(super) span: u64,
    /// Whether the caller records its part of the trace.
    pub(super) is_sampled: bool,
    /// Empty if there is none.
    pub(super) state: String,
}

impl TraceParent {
    /// Parses the fields of a request. An invalid `traceparent` is ignored, as the specification asks, and so is an invalid
    /// `tracestate`.
    pub fn parse(traceparent: &str, tracestate: &str) -> Option<Self> {
        let mut fields = traceparent.splitn(5, '-');
        let version = hexadecimal(fields.next()?, 2)?;
        let trace = hexadecimal(fields.next()?, 32)?;
        let span = u64::try_from(hexadecimal(fields.next()?, 16)?).ok()?;
        let flags = hexadecimal(fields.next()?, 2)?;
        // Later versions may add fields. No version is 255.
        if version == 0xff || version == 0 && fields.next().is_some() || trace == 0 || span == 0 {
            return None;
        }
        let is_state =
            tracestate.len() <= STATE_BYTES && tracestate.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let state = if is_state { tracestate.to_owned() } else { String::new() };
        Some(Self { trace, span, is_sampled: flags & 1 == 1, state })
    }
}

/// Writes `traceparent`.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// Parses a number of exactly so many lower-case digits.
fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    u128::from_str_radix(text, 16).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn o5_a_traceparent_is_read_and_written() {
        let parent = TraceParent::parse(VALID, "vendor=1").expect("valid");
        assert_eq!(
            (parent.to_string().as_str(), parent.is_sampled, parent.state.as_str()),
            (VALID, true, "vendor=1")
        );
        let unsampled = VALID.replace("-01", "-00");
        assert!(!TraceParent::parse(&unsampled, "").expect("valid").is_sampled);
        // A later version, with flags and a field that this one does not know.
        let later = VALID.replace("00-4b", "cc-4b").replace("-01", "-03-more");
        assert_eq!(TraceParent::parse(&later, "").expect("valid").to_string(), VALID);
        assert_eq!(TraceParent::parse(VALID, &"a".repeat(513)).expect("valid").state, "");
    }

    #[test]
    fn o5_an_invalid_traceparent_is_ignored() {
        for invalid in [
            String::new(),
            VALID.to_uppercase(),
            VALID.replace("00-4b", "ff-4b"),
            format!("{VALID}-more"),
            VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            VALID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            VALID.replace("-01", "-1"),
            VALID.replace("4bf9", "+bf9"),
            VALID[..52].to_owned(),
        ] {
            assert_eq!(TraceParent::parse(&invalid, ""), None, "{invalid}");
        }
    }
}
