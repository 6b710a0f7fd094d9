//! Tests of the behaviour that a model relies on, as questions and answers.

mod units_and_statistics;

use toolgate_sdk::testing;

use super::*;

fn decimal(expression: &str) -> String {
    calculate(expression, 20).unwrap_or_else(|problem| panic!("{expression}: {problem}")).decimal
}

fn problem(expression: &str) -> String {
    calculate(expression, 20).expect_err(expression)
}

#[test]
fn the_examples_are_true() {
    let context = testing::context().build();
    assert_eq!(testing::wrong_examples::<evaluate>(&context), []);
    assert_eq!(testing::wrong_examples::<convert_units::convert_units>(&context), []);
    assert_eq!(testing::wrong_examples::<statistics::statistics>(&context), []);
}

#[test]
fn t1_the_plugin_describes_itself() {
    let description = testing::describe::<ThisPlugin>();

    assert_eq!(description["name"], "arithmetic");
    assert_eq!(description["tools"][0]["hints"]["read_only"], true);
    assert_eq!(description["tools"][0]["input_schema"]["properties"]["digits"]["maximum"], 1000);
    assert_eq!(description["tools"][0]["input_schema"]["required"], testing_json(r#"["expression"]"#));
}

fn testing_json(text: &str) -> toolgate_sdk::serde_json::Value {
    toolgate_sdk::serde_json::from_str(text).unwrap()
}

#[test]
fn whole_numbers_are_exact() {
    for (expression, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("2**10", "1024"),
        ("2 − 5 × 3 ÷ 1", "-13"),
        ("--3", "3"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("20!", "2432902008176640000"),
        ("3!^2", "36"),
        ("123456789 * 987654321", "121932631112635269"),
        ("1_000 * 1e3", "1000000"),
        ("0^0", "1"),
        ("(-1)^1000000000000000000001", "-1"),
        ("1^99999999999999999999999", "1"),
    ] {
        assert_eq!(decimal(expression), expected, "{expression}");
    }
}

#[test]
fn fractions_are_exact() {
    let third = calculate("1/3", 5).unwrap();
    assert_eq!(
        third,
        Evaluation { decimal: "0.33333".to_owned(), exact: false, fraction: Some("1/3".to_owned()) }
    );

    for (expression, expected) in [
        ("0.1 + 0.2", "0.3"),
        ("1/3 * 3", "1"),
        ("2^-2", "0.25"),
        ("-2/3", "-0.66666666666666666667"),
        ("1.005 * 100", "100.5"),
        (".5 + 5.", "5.5"),
        ("10 / 4", "2.5"),
    ] {
        assert_eq!(decimal(expression), expected, "{expression}");
    }
}

#[test]
fn percentages_and_remainders_are_told_apart() {
    for (expression, expected) in [
        ("80 * 15%", "12"),
        ("15% * 80", "12"),
        ("10% + 5%", "0.15"),
        ("50%", "0.5"),
        ("10% - 5", "-4.9"),
        ("7 % 3", "1"),
        ("7 % -3", "-2"),
        ("-7 % 3", "2"),
        ("mod(-7, 3)", "2"),
        ("5.5 % 2", "1.5"),
        ("100 + (15%)", "100.15"),
        ("(10 + 5)%", "0.15"),
    ] {
        assert_eq!(decimal(expression), expected, "{expression}");
    }
    assert!(problem("100 + 15%").contains("a percentage of what?"));
}

#[test]
fn a_percentage_more_or_less_than_one_has_one_meaning() {
    for (expression, expected) in [
        ("1 + 5%", "1.05"),
        ("1000 * (1 + 5%)^2", "1102.5"),
        ("100 * (1-20%)", "80"),
        ("100 * (1 - 2.5%) / (1 + 25%)", "78"),
        ("2 - 1.0 + 5%", "1.05"),
        ("1 + (5% + 3%)", "1.08"),
    ] {
        assert_eq!(decimal(expression), expected, "{expression}");
    }
    for expression in ["1 + 5% + 3%", "0 + 5%", "-1 - 5%", "2 + 5%", "1 + 2 + 5%", "1000 * (1.1 + 5%)"] {
        assert!(problem(expression).contains("a percentage of what?"), "{expression}");
    }
}

#[test]
fn t7_a_percent_sign_that_can_be_read_in_two_ways_is_refused() {
    for expression in [
        "50%(80)",
        "50% 80",
        "50 %80",
        "50% (80)",
        "50% of 80",
        "2 * 50% sqrt(16)",
        "5%2",
        "7%3",
        "50%sqrt(4)",
    ] {
        let problem = problem(expression);
        assert!(problem.contains("`%` has two meanings here: write `50% * 80`"), "{expression}: {problem}");
    }
    for (expression, way_out) in [
        ("5%-2", "write `5% - 2` with spaces for a percentage, or `5 % -2` for the remainder"),
        ("5%+2", "write `5% + 2` with spaces for a percentage, or `5 % +2` for the remainder"),
        ("10%%3", "write `(10%) % 3` for the remainder of a percentage"),
        ("10%%", "`%%` has two meanings"),
    ] {
        let problem = problem(expression);
        assert!(problem.contains(way_out), "{expression}: {problem}");
    }
    for (expression, expected) in [
        ("50% * (80)", "40"),
        ("50 % (80)", "50"),
        ("7 % sqrt(9)", "1"),
        ("5 % 2", "1"),
        ("5 % -2", "-1"),
        ("5 % +2", "1"),
        ("5% - 2", "-1.95"),
        ("(10%) % 3", "0.1"),
        ("10% % 3", "0.1"),
    ] {
        assert_eq!(decimal(expression), expected, "{expression}");
    }
}

#[test]
fn functions_give_what_they_are_named_for() {
    for (expression, expected) in [
        ("gcd(12, 18, 27)", "3"),
        ("lcm(4, 6, 10)", "60"),
        ("abs(-3.5)", "3.5"),
        ("floor(-1.5)", "-2"),
        ("ceil(-1.5)", "-1"),
        ("trunc(-1.5)", "-1"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(2.345, 2)", "2.35"),
        ("round(1234, -2)", "1200"),
        ("round_half_even(2.5)", "2"),
        ("round_half_even(3.5)", "4"),
        ("round_half_even(-2.5)", "-2"),
        ("round_half_even(2.51)", "3"),
        ("round_half_even(0.5)", "0"),
        ("round_half_even(1250, -2)", "1200"),
        ("round_half_down(2.5)", "2"),
        ("round_half_down(-2.5)", "-2"),
        ("round_half_down(-2.51)", "-3"),
        ("round_half_down(1/3)", "0"),
        ("round_up(2.01)", "3"),
        ("round_up(-2.01)", "-3"),
        ("round_up(2)", "2"),
        ("floor(-1.25, 1)", "-1.3"),
        ("ceil(-1.25, 1)", "-1.2"),
        ("trunc(-1.29, 1)", "-1.2"),
        ("min(3, 1, 2)", "1"),
        ("max(3, 1/2)", "3"),
        ("sqrt(144)", "12"),
        ("sqrt(4/9) * 3", "2"),
        ("cbrt(-27)", "-3"),
        ("root(1024, 10)", "2"),
        ("8^(2/3)", "4"),
        ("factorial(5)", "120"),
        ("choose(52, 5)", "2598960"),
        ("choose(3, 5)", "0"),
        ("SQRT(16)", "4"),
    ] {
        assert_eq!(decimal(expression), expected, "{expression}");
    }
}

#[test]
fn inexact_results_are_marked_and_every_digit_is_right() {
    let root = calculate("sqrt(2)", 30).unwrap();
    assert_eq!(
        root,
        Evaluation { decimal: "1.414213562373095048801688724210".to_owned(), exact: false, fraction: None }
    );

    assert_eq!(decimal("2^0.5"), "1.41421356237309504880");
    assert_eq!(decimal("sqrt(2) * sqrt(2)"), "2.00000000000000000000");
    assert_eq!(
        decimal("floor(sqrt(2) * 10^60)"),
        "1414213562373095048801688724209698078569671875376948073176679"
    );
    assert_eq!(decimal("sqrt(2) - sqrt(2) + 1"), "1.00000000000000000000");
    assert_eq!(decimal("1 / (sqrt(10^40 + 1) - 10^20)"), "200000000000000000000.00000000000000000000");
    assert_eq!(decimal("1/3 * 10^-30"), "3.33333333333333333333e-31");
}

#[test]
fn powers_with_a_fraction_as_exponent_have_digits() {
    for (expression, expected) in [
        ("1.05^(1/365)", "1.00013368061711344035"),
        ("2^0.123", "1.08899701533610638986"),
        ("root(2, 365)", "1.00190083767723484579"),
        ("(1 + 0.05/365)^(365*30)", "4.48122868852451524775"),
        ("(1 + 1e-15)^(10^15)", "2.71828182845904387622"),
        ("1.07^-500.5", "0.00000000000000196526"),
        ("2^sqrt(2)", "2.66514414269022518865"),
        ("1/7^11000", "8.34756564800904617080e-9297"),
        ("sqrt(2^30001)", "3.98519849421153935177e4515"),
        ("1.5^30000", "5.46728445797580787234e5282"),
        ("(1/3)^99999", "0"),
        ("32^0.2", "2"),
        ("(9/4)^-1.5", "0.29629629629629629630"),
        ("0^0.5", "0"),
    ] {
        assert_eq!(decimal(expression), expected, "{expression}");
    }
}

#[test]
fn logarithms_and_exponentials_are_right_in_every_digit() {
    for (expression, expected) in [
        ("ln(2)", "0.69314718055994530942"),
        ("ln(10)", "2.30258509299404568402"),
        ("ln(0.5)", "-0.69314718055994530942"),
        ("ln(1)", "0"),
        ("exp(0)", "1"),
        ("exp(1) - e", "0"),
        ("exp(-1)", "0.36787944117144232160"),
        ("exp(10)", "22026.46579480671651695790"),
        ("exp(-30000)", "1.46400615449632675935e-13029"),
        ("pi", "3.14159265358979323846"),
        ("2 * π", "6.28318530717958647693"),
        ("log10(1000)", "3"),
        ("log2(1/8)", "-3"),
        ("log(81, 3)", "4"),
        ("log10(2)", "0.30102999566398119521"),
        ("floor(log10(999))", "2"),
    ] {
        assert_eq!(decimal(expression), expected, "{expression}");
    }
    let digits = calculate("pi", 100).unwrap().decimal;
    assert_eq!(
        digits,
        "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170680"
    );
    assert!(problem("exp(100000)").contains("more digits than the 10000"));
}

#[test]
fn logarithm_and_exponential_undo_each_other_at_every_precision() {
    for digits in [1, 7, 20, 60, 100, 150, 333, 1_000] {
        for number in ["3", "0.1", "1234567.8", "1e40"] {
            let expected = calculate(&format!("{number} + sqrt(2) * 1e-2000"), digits).unwrap();
            assert_eq!(
                calculate(&format!("exp(ln({number}))"), digits).unwrap(),
                expected,
                "{number}, {digits}"
            );
        }
    }
}

#[test]
fn numbers_too_small_for_the_digits_have_an_exponent() {
    for (expression, digits, expected, exact) in [
        ("9.9999e-30", 2, "1.00e-29", false),
        ("-9.9999e-30", 2, "-1.00e-29", false),
        ("9.994e-30", 2, "9.99e-30", false),
        ("1e-30", 20, "1e-30", true),
        ("-1.5e-30", 20, "-1.5e-30", true),
        ("1e-3", 2, "1e-3", true),
        ("1/3", 0, "0", false),
        ("1/2", 0, "1", false),
        ("-1/3", 0, "0", false),
        ("5/2", 1, "2.5", true),
        ("1/300", 1, "3.3e-3", false),
        ("0.96", 1, "1.0", false),
        ("sqrt(2) * 1e-30", 3, "1.414e-30", false),
        ("sqrt(2) * 1e103", 3, "1.414e103", false),
        ("sqrt(2) * 1e10", 3, "14142135623.731", false),
    ] {
        let evaluation = calculate(expression, digits).unwrap();
        assert_eq!((evaluation.decimal.as_str(), evaluation.exact), (expected, exact), "{expression}");
    }
}

#[test]
fn what_cancels_is_zero_as_far_as_it_is_known() {
    for expression in ["sqrt(2) - sqrt(2)", "sqrt(2)^2 - 2", "exp(ln(2)) - 2", "(sqrt(2) - sqrt(2))^1000000"]
    {
        let evaluation = calculate(expression, 20).unwrap();
        assert_eq!(evaluation, Evaluation { decimal: "0".to_owned(), exact: false, fraction: None });
    }
    assert_eq!(decimal("floor(round(sqrt(2)^2, 30))"), "2");
}

/// The fuel of a call is not seen natively, but what uses it is counted: about 25 units of fuel a step.
#[test]
fn ordinary_questions_cost_little_and_none_costs_more_than_the_cap() {
    let steps = |expression: &str, digits| {
        settle_counted(digits, |work| expression::evaluate(expression, work)).1.steps.get()
    };
    for expression in [
        "sqrt(2)",
        "1.05^(1/365)",
        "root(2, 365)",
        "2^0.123",
        "(1 + 0.05/365)^(365*30)",
        "log10(2)",
        "0.99^100000",
        "pi",
    ] {
        assert!(steps(expression, 20) < 200_000, "{expression}: {}", steps(expression, 20));
    }
    for expression in [
        "sqrt(2) - sqrt(2)",
        "floor(sqrt(2)^2)",
        "1/7^11000",
        "sqrt(2^30001)",
        "1/2500!",
        "2500!/3^20000",
        "root(3^20000, 7)",
    ] {
        assert!(steps(expression, 20) < 15_000_000, "{expression}: {}", steps(expression, 20));
    }
    for expression in
        ["exp(ln(2)) - 2", "choose(30000, 15000)", "sqrt(2)^(-10^15)", &"1e-9999+".repeat(1_100)]
    {
        assert!(steps(expression, 1_000) <= crate::work::MAX_STEPS, "{expression}");
    }
    assert!(
        problem("choose(30000, 15000)").contains("more work than one call may do: calculate it in parts")
    );
}

#[test]
fn fractions_keep_their_lowest_terms_however_long() {
    for (expression, expected) in [
        ("(3^9000 * 2) / (3^9001)", "2/3"),
        ("2500!/2501! + 1/2501", "2/2501"),
        ("7^5000/11^4000 * 11^4000/7^5001", "1/7"),
        ("1/7^5000 + 1/2 - 1/7^5000", "1/2"),
        ("-1/6 + 1/10", "-1/15"),
    ] {
        assert_eq!(calculate(expression, 20).unwrap().fraction.as_deref(), Some(expected), "{expression}");
    }
    assert_eq!(decimal("gcd(3^5000 * 7^3000, 3^4000 * 11^3000) / 3^4000"), "1");
    assert_eq!(decimal("lcm(-4, 6) + lcm(0, 5)"), "12");
    assert_eq!(decimal("1/3 - 1/3 + 0/5"), "0");
}

#[test]
fn what_roots_leave_undecided_is_said() {
    assert!(problem("floor(sqrt(2)^2)").contains("too close to call"));
    assert!(problem("1 / (sqrt(2) - sqrt(2))").contains("too close to call"));
}

#[test]
fn huge_results_are_refused_at_once() {
    assert_eq!(
        problem("9^9^9^9"),
        "at character 4: the result would have about 369693100 digits, more than the 10000 that are kept"
    );
    assert_eq!(
        problem("9^9^9"),
        "at character 2: the result would have about 369693100 digits, more than the 10000 that are kept"
    );
    for expression in [
        "100000!",
        "10^10001",
        "1e10001",
        "1/10^99999",
        "(2^30000)^30000",
        "choose(10^9, 10^8)",
        "(1/3)^-99999",
        "sqrt(2)^(10^15)",
    ] {
        let problem = problem(expression);
        assert!(problem.contains("digits"), "{expression}: {problem}");
    }
    assert_eq!(decimal("2500! / 2499!"), "2500");
}

#[test]
fn errors_name_the_place_and_the_way_out() {
    for (expression, expected) in [
        ("", "at character 1: the expression ends where a number, a function or `(` is expected"),
        ("1 +", "at character 4: the expression ends where a number, a function or `(` is expected"),
        ("(1 + 2", "at character 7: the expression ends where `)` for what began at character 1 is expected"),
        ("1 2", "at character 3: found a number where an operator or the end is expected"),
        (
            "1,000 + 1",
            "at character 2: found `,` (numbers are written without it: `1_000` or `1000`) where an operator or the end is expected",
        ),
        (
            "2 $ 3",
            "at character 3: `$` means nothing here: use digits, + - * / // % ^ ! ( ) and names of functions",
        ),
        ("1 / (3 - 3)", "at character 3: division by zero"),
        ("0^-1", "at character 2: division by zero"),
        ("sqrt(-1)", "at character 1: a negative number has no such root"),
        ("1.5!", "at character 4: a factorial needs whole numbers: round first"),
        ("choose(5, 1.5)", "at character 1: `choose` needs whole numbers: round first"),
        ("3!!", "at character 2: `!!` has two meanings: write `(n!)!` for a factorial of a factorial"),
        ("gcd(1.5, 2)", "at character 1: `gcd` needs whole numbers: round first"),
        ("sqrt(1, 2)", "at character 1: `sqrt` takes one number, not 2"),
        ("min()", "at character 1: `min` takes one number or more, not 0"),
        (
            "log(100)",
            "at character 1: `log` takes a number and a base (`ln(x)` has the base e, `log10(x)` has 10), not 1",
        ),
        ("ln(0)", "at character 1: a logarithm needs a number above zero"),
        ("log(5, 1)", "at character 1: there is no logarithm to the base 1"),
        ("(-2)^0.5", "at character 5: a negative number has no power with a fraction as exponent"),
        ("0^(1/2 - 1)", "at character 2: division by zero"),
        ("1.2.3", "at character 1: `1.2.3` is no number"),
    ] {
        assert_eq!(problem(expression), expected, "{expression}");
    }
    assert!(problem("sine(1)").starts_with("at character 1: there is no function `sine`, but abs"));
    assert!(problem("tau * 2").starts_with("at character 1: `tau` has no value"));
}

#[test]
fn what_is_nested_is_counted_once() {
    for (open, close) in [("(", ")"), ("abs(", ")"), ("-", ""), ("1^", ""), ("min(2, ", ")")] {
        let nested = |times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
        assert_eq!(decimal(&nested(100)), "1", "{open}");
        for times in [101, 1_400] {
            assert!(
                problem(&nested(times)).ends_with("nested more than 100 deep: calculate its parts"),
                "{open}"
            );
        }
    }
}

#[test]
fn no_text_makes_it_panic() {
    for text in [
        ".",
        "1e",
        "1e+",
        "_",
        "1__2",
        "é(1)",
        "(",
        ")",
        "%",
        "!",
        "1%%",
        "^",
        "1e99999999999999999999",
        "\u{0}",
        "😀",
    ] {
        let _ = calculate(text, 3);
    }
}

#[test]
fn arguments_beyond_the_caps_are_refused() {
    let refused = evaluate("1".repeat(MAX_EXPRESSION_CHARACTERS + 1), 20).unwrap_err();
    assert_eq!(refused.code(), "INVALID_ARGUMENTS");
    assert!(evaluate("1".to_owned(), MAX_DIGITS + 1).is_err());
    assert!(evaluate("1/7".to_owned(), MAX_DIGITS).is_ok());
}
