use toolgate_sdk::tool;

struct Tools;

/// Is generic.
#[tool]
fn generic<T>(
    /// Anything
    a: T,
) {
}

/// Is unsafe.
#[tool]
unsafe fn danger() {}

/// Takes a pair.
#[tool]
fn pair(
    /// Two numbers
    (a, b): (f64, f64),
) -> f64 {
    a + b
}

impl Tools {
    /// Is a method.
    #[tool]
    fn method(&self) {}
}

/// Is no function.
#[tool]
struct Wrong;

fn main() {}
