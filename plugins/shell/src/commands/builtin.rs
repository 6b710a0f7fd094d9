//! Commands about the shell itself.

use std::collections::HashMap;
use std::rc::Rc;

use crate::call::Call;
use crate::commands::{self, declare};
use crate::escape::{self, Kind};
use crate::execute::evaluate_test;
use crate::parse;
use crate::shell::{Options, Outcome, Stop, Value, Variable, fail};

pub fn yes(_: &mut Call<'_>) -> Outcome {
    Ok(0)
}

pub fn no(_: &mut Call<'_>) -> Outcome {
    Ok(1)
}

/// `timeout`: the deadline of the call ends a command that takes too long.
pub fn timeout(call: &mut Call<'_>) -> Outcome {
    let options = call.options("k:s:v", "kill-after=k signal=s", true)?;
    let [duration, name, arguments @ ..] = options.rest.as_slice() else {
        return fail("needs a time and a command");
    };
    let number = duration.trim_end_matches(['s', 'm', 'h', 'd']);
    if number.parse::<f64>().is_err() {
        return Err(Stop::Fail(125, format!("invalid time interval '{duration}'")));
    }
    call.shell.call_command(name, arguments, call.io)
}

/// `umask`: files have no modes, so it only shows that of most systems.
pub fn umask(call: &mut Call<'_>) -> Outcome {
    if call.arguments.is_empty() { call.line("0022").map(|()| 0) } else { Ok(0) }
}

pub fn sleep(call: &mut Call<'_>) -> Outcome {
    call.complain("does not wait in this shell").map(|()| 0)
}

pub fn hostname(call: &mut Call<'_>) -> Outcome {
    call.line("localhost").map(|()| 0)
}

pub fn whoami(call: &mut Call<'_>) -> Outcome {
    call.line(if call.name == "id" && call.arguments.first().is_some_and(|flag| flag == "-u") {
        "1000"
    } else {
        "agent"
    })
    .map(|()| 0)
}

pub fn echo(call: &mut Call<'_>) -> Outcome {
    let (mut ends_line, mut escapes, mut first) = (true, false, 0);
    for argument in call.arguments {
        let Some(letters) = argument.strip_prefix('-') else { break };
        if letters.is_empty() || !letters.chars().all(|letter| "neE".contains(letter)) {
            break;
        }
        for letter in letters.chars() {
            match letter {
                'n' => ends_line = false,
                letter => escapes = letter == 'e',
            }
        }
        first += 1;
    }
    let mut text = call.arguments[first..].join(" ");
    if escapes {
        let (decoded, is_ended) = escape::decode(&text, Kind::Echo);
        ends_line &= !is_ended;
        text = decoded;
    }
    if ends_line {
        text.push('\n');
    }
    call.out(text).map(|()| 0)
}

pub fn bracket(call: &mut Call<'_>) -> Outcome {
    let mut arguments = call.arguments;
    if call.name == "[" {
        match arguments.split_last() {
            Some((last, rest)) if last == "]" => arguments = rest,
            _ => return Err(Stop::Fail(2, "missing `]`".to_owned())),
        }
    }
    Ok(i32::from(!evaluate_test(call.shell, arguments)?))
}

pub fn cd(call: &mut Call<'_>) -> Outcome {
    let home = call.shell.files.root.clone();
    let path = match call.arguments.first().map(String::as_str) {
        None => call.shell.get("HOME").unwrap_or(&home).to_owned(),
        Some("-") => {
            let old = call.shell.get("OLDPWD").unwrap_or(&home).to_owned();
            call.line(&old)?;
            old
        }
        Some(path) => path.to_owned(),
    };
    enter(call, &path)
}

fn enter(call: &mut Call<'_>, path: &str) -> Outcome {
    match call.shell.files.metadata(&call.shell.state.current, path) {
        Ok(found) if found.is_folder() => {
            let old = call.shell.state.current.clone();
            call.shell.state.current = call.shell.files.absolute(&old, path);
            let current = call.shell.state.current.clone();
            call.shell.set("OLDPWD", old)?;
            call.shell.set("PWD", current).map(|()| 0)
        }
        Ok(_) => fail(format!("{path}: Not a directory")),
        Err(error) => fail(format!("{path}: {}", crate::files::explain(&error))),
    }
}

/// `pushd`, `popd` and `dirs`
pub fn folders(call: &mut Call<'_>) -> Outcome {
    let old = call.shell.state.current.clone();
    let last = call.shell.state.folders.last().cloned();
    match (call.name, call.arguments.first().cloned()) {
        ("dirs", _) => {}
        ("pushd", Some(path)) => {
            enter(call, &path)?;
            call.shell.state.folders.push(old);
        }
        (name, _) => {
            let Some(path) = last else { return fail("directory stack empty") };
            enter(call, &path)?;
            call.shell.state.folders.pop();
            call.shell.state.folders.extend((name == "pushd").then_some(old));
        }
    }
    let home = call.shell.get("HOME").unwrap_or_default().to_owned();
    let shorten = |path: &String| match path.strip_prefix(&home) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
        _ => path.clone(),
    };
    let state = &call.shell.state;
    let shown: Vec<String> =
        std::iter::once(&state.current).chain(state.folders.iter().rev()).map(shorten).collect();
    call.line(shown.join(" ")).map(|()| 0)
}

pub fn pwd(call: &mut Call<'_>) -> Outcome {
    call.line(call.shell.state.current.clone()).map(|()| 0)
}

fn numeric(call: &Call<'_>, default: i32) -> Outcome<i32> {
    match call.arguments.first() {
        None => Ok(default),
        Some(text) => {
            text.trim().parse().map_err(|_| Stop::Fail(2, format!("{text}: numeric argument required")))
        }
    }
}

/// `exit` and `return`
pub fn exit(call: &mut Call<'_>) -> Outcome {
    if call.name == "return" && call.shell.state.calls.is_empty() {
        return Err(Stop::Fail(2, "can only `return' from a function or sourced script".to_owned()));
    }
    let status = numeric(call, call.shell.state.status)? & 255;
    Err(if call.name == "exit" { Stop::Exit(status) } else { Stop::Return(status) })
}

/// `break` and `continue`
pub fn leave_loop(call: &mut Call<'_>) -> Outcome {
    let loops = call.shell.state.loops;
    if loops == 0 {
        call.complain("only meaningful in a `for', `while', or `until' loop")?;
        return Ok(0);
    }
    let levels = u32::try_from(numeric(call, 1)?).unwrap_or(1).clamp(1, loops);
    Err(if call.name == "break" { Stop::Break(levels) } else { Stop::Continue(levels) })
}

pub fn shift(call: &mut Call<'_>) -> Outcome {
    let count = usize::try_from(numeric(call, 1)?).unwrap_or(usize::MAX);
    let positional = &call.shell.state.positional;
    if count > positional.len() {
        return Ok(1);
    }
    call.shell.state.positional = Rc::new(positional[count..].to_vec());
    Ok(0)
}

pub fn arithmetic(call: &mut Call<'_>) -> Outcome {
    let mut value = 0;
    for argument in call.arguments {
        value = call.shell.arithmetic(argument)?;
    }
    Ok(i32::from(value == 0))
}

pub fn eval(call: &mut Call<'_>) -> Outcome {
    let script = call.arguments.join(" ");
    let list = parse::parse(&script).map_err(|message| Stop::Fail(2, message))?;
    let io = call.io;
    call.shell.deeper(|shell| shell.list(&list, io))
}

pub fn source(call: &mut Call<'_>) -> Outcome {
    let Some((path, rest)) = call.arguments.split_first() else { return fail("needs the path of a file") };
    let script = call.read_or_fail(path, 1)?;
    let list = parse::parse(&String::from_utf8_lossy(&script)).map_err(|message| Stop::Fail(2, message))?;
    let kept = Rc::clone(&call.shell.state.positional);
    if !rest.is_empty() {
        call.shell.state.positional = Rc::new(rest.to_vec());
    }
    let io = call.io;
    call.shell.state.calls.push("source".to_owned());
    let calls = call.shell.state.calls.len();
    let outcome = call.shell.deeper(|shell| shell.list(&list, io));
    call.shell.state.calls.truncate(calls - 1);
    call.shell.state.positional = kept;
    match outcome {
        Err(Stop::Return(status)) => Ok(status),
        other => other,
    }
}

/// `bash` and `sh`, with `-c`, a file, or a script from the input.
pub fn bash(call: &mut Call<'_>) -> Outcome {
    let options = call.options("ceuxfEno:", "", true)?;
    let mut settings = Options::default();
    for (flag, name) in options.flags.iter().filter(|(flag, _)| !matches!(flag, 'c' | 'n')) {
        declare::set_option(&mut settings, *flag, name, true)?;
    }
    let io = call.io;
    if options.has('n') {
        let script = match options.rest.first() {
            Some(script) if options.has('c') => script.clone().into_bytes(),
            Some(path) => call.read_or_fail(path, 127)?,
            None => io.input.read_all(),
        };
        let parsed = parse::parse(&String::from_utf8_lossy(&script));
        return parsed.map(|_| 0).map_err(|message| Stop::Fail(2, message));
    }
    match options.rest.split_first() {
        Some((script, rest)) if options.has('c') => {
            let (name, rest) =
                rest.split_first().map_or(("bash", rest), |(name, rest)| (name.as_str(), rest));
            call.shell.run_script(script, (name, rest), HashMap::new(), settings, io)
        }
        Some((path, rest)) => call.shell.run_file(path, rest, settings, io),
        None => {
            let script = String::from_utf8_lossy(&io.input.read_all()).into_owned();
            call.shell.run_script(&script, ("bash", &[]), HashMap::new(), settings, io)
        }
    }
}

pub fn exec(call: &mut Call<'_>) -> Outcome {
    let Some((name, rest)) = call.arguments.split_first() else { return Ok(0) };
    let status = call.shell.call_command(name, rest, call.io)?;
    Err(Stop::Exit(status))
}

/// `command` and `builtin`
pub fn command(call: &mut Call<'_>) -> Outcome {
    match call.arguments.first().map(String::as_str) {
        Some("-v" | "-V") => find_type(call),
        Some(name) => call.shell.call_command(name, &call.arguments[1..], call.io),
        None => Ok(0),
    }
}

/// `type`, `which` and `command -v`
pub fn find_type(call: &mut Call<'_>) -> Outcome {
    let is_word = call.arguments.first().is_some_and(|flag| flag == "-t");
    let mut status = 0;
    for name in call.arguments.iter().filter(|name| !name.starts_with('-')) {
        let is_function = call.shell.state.functions.contains_key(name);
        let is_builtin = commands::is_builtin(name);
        if !is_function && commands::find(name).is_none() {
            if call.name == "type" && !is_word {
                call.complain(&format!("{name}: not found"))?;
            }
            status = 1;
            continue;
        }
        let kind = if is_function {
            "function"
        } else if is_builtin {
            "builtin"
        } else {
            "file"
        };
        let text = match (call.name, kind) {
            ("type", kind) if is_word => kind.to_owned(),
            ("type", "function") => format!("{name} is a function"),
            ("type", "builtin") => format!("{name} is a shell builtin"),
            ("type", _) => format!("{name} is /usr/bin/{name}"),
            (_, "file") => format!("/usr/bin/{name}"),
            ("which", _) if !is_function => format!("/usr/bin/{name}"),
            _ => name.clone(),
        };
        call.line(text)?;
    }
    Ok(status)
}

pub fn help(call: &mut Call<'_>) -> Outcome {
    call.line(commands::names().join(" ")).map(|()| 0)
}

/// `env` and `printenv`
pub fn env(call: &mut Call<'_>) -> Outcome {
    if call.name == "printenv" && !call.arguments.is_empty() {
        let mut status = 0;
        for name in call.arguments {
            match call
                .shell
                .variable(name)
                .filter(|variable| variable.is_exported)
                .and_then(|_| call.shell.get(name))
                .map(str::to_owned)
            {
                Some(value) => call.line(value)?,
                None => status = 1,
            }
        }
        return Ok(status);
    }
    let options = call.options("iu:", "ignore-environment=i unset=u", true)?;
    let mut scope: HashMap<String, Rc<Variable>> = HashMap::new();
    let assignments = options.rest.iter().take_while(|word| word.contains('=')).count();
    if options.has('i') {
        scope.extend(call.shell.environment().into_iter().map(|(name, _)| (name, Rc::default())));
    }
    scope.extend(options.values('u').map(|name| (name.to_owned(), Rc::default())));
    for word in &options.rest[..assignments] {
        let (name, value) = word.split_once('=').unwrap_or_default();
        let value = Some(Value::Text(value.to_owned()));
        scope.insert(name.to_owned(), Rc::new(Variable { value, is_exported: true, ..Variable::default() }));
    }
    call.shell.state.scopes.push(scope);
    let outcome = match options.rest[assignments..].split_first() {
        Some((name, rest)) => call.shell.call_command(name, rest, call.io),
        None => {
            let lines = call.shell.environment().into_iter().map(|(name, value)| format!("{name}={value}\n"));
            let text: String = lines.collect();
            call.out(text).map(|()| 0)
        }
    };
    call.shell.state.scopes.pop();
    outcome
}

/// `expr` with two operands, as old scripts have it.
pub fn expr(call: &mut Call<'_>) -> Outcome {
    let value = match call.arguments {
        [left, sign, right]
            if matches!(
                sign.as_str(),
                "+" | "-" | "*" | "/" | "%" | "<" | ">" | "<=" | ">=" | "=" | "!="
            ) =>
        {
            let number = |text: &str| text.parse::<i64>().is_ok();
            if number(left) && number(right) {
                let sign = if sign == "=" { "==" } else { sign };
                call.shell.arithmetic(&format!("({left}) {sign} ({right})"))?.to_string()
            } else {
                let holds = match sign.as_str() {
                    "=" => left == right,
                    "!=" => left != right,
                    "<" => left < right,
                    ">" => left > right,
                    "<=" => left <= right,
                    ">=" => left >= right,
                    _ => return Err(Stop::Fail(2, "non-integer argument".to_owned())),
                };
                i32::from(holds).to_string()
            }
        }
        [text] => text.clone(),
        [word, text] if word == "length" => text.chars().count().to_string(),
        _ => {
            return Err(Stop::Fail(
                2,
                "only two numbers or texts with an operator are supported by this shell: use `$(( ))`"
                    .to_owned(),
            ));
        }
    };
    call.line(&value)?;
    Ok(i32::from(value == "0" || value.is_empty()))
}
