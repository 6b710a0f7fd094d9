//! Redirections.

use crate::files::explain;
use crate::shell::{Outcome, Shell, fail};
use crate::stream::{Channel, Input, Output, Streams};
use crate::syntax::{Redirect, Target};

/// The largest descriptor of a redirection.
const MAX_DESCRIPTOR: u32 = 255;

impl Shell {
    pub fn redirect(&mut self, redirects: &[Redirect], io: &Streams) -> Outcome<Streams> {
        let mut streams = io.clone();
        for redirect in redirects {
            if let Some(other) = redirect.descriptors.iter().find(|descriptor| **descriptor > MAX_DESCRIPTOR)
            {
                return fail(format!("{other}: Bad file descriptor"));
            }
            self.redirect_one(redirect, io, &mut streams)?;
        }
        Ok(streams)
    }

    fn redirect_one(&mut self, redirect: &Redirect, io: &Streams, streams: &mut Streams) -> Outcome<()> {
        let first = redirect.descriptors.first().copied().unwrap_or(1);
        match &redirect.target {
            Target::Text(word) => {
                let text = self.expand_text(&word.borrow(), io)?;
                streams.set_channel(first, Some(Channel::Input(Input::of(text.into_bytes()))));
            }
            Target::Read(word) => {
                let path = self.expand_text(word, io)?;
                if path != "/dev/stdin" {
                    let read = self.files.read(&self.state.current, &path);
                    let bytes = read.or_else(|error| fail(format!("{path}: {}", explain(&error))))?;
                    streams.set_channel(first, Some(Channel::Input(Input::of(bytes))));
                }
            }
            Target::Write(word) | Target::Append(word) => {
                let path = self.expand_text(word, io)?;
                let appends = matches!(redirect.target, Target::Append(_));
                let output = self.open_output(&path, appends, streams)?;
                for descriptor in &redirect.descriptors {
                    streams.set_channel(*descriptor, Some(Channel::Output(output.clone())));
                }
            }
            Target::Descriptor(word) => {
                let number = self.expand_text(word, io)?;
                match (number.as_str(), number.parse().ok()) {
                    ("-", _) => streams.set_channel(first, None),
                    (_, Some(source)) => match streams.channel(source) {
                        Some(channel) => streams.set_channel(first, Some(channel)),
                        None => return fail(format!("{number}: Bad file descriptor")),
                    },
                    (path, None) => {
                        let output = self.open_output(path, false, streams)?;
                        streams.set_channel(1, Some(Channel::Output(output.clone())));
                        streams.set_channel(2, Some(Channel::Output(output)));
                    }
                }
            }
        }
        Ok(())
    }

    fn open_output(&mut self, path: &str, appends: bool, streams: &Streams) -> Outcome<Output> {
        match path {
            "/dev/stdout" => return Ok(streams.output.clone()),
            "/dev/stderr" => return Ok(streams.errors.clone()),
            _ => {}
        }
        let output = self.files.create(&self.state.current, path, appends);
        output.or_else(|error| fail(format!("{path}: {}", explain(&error))))
    }
}
