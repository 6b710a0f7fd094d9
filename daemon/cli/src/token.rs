//! `toolgate token`: manages tokens. A token is printed once, when it is created.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use serde::de::IgnoredAny;
use serde_json::json;
use toolgate_api::token::{Role, TokenRequest, TokenView};

use super::ask;
use super::audit::now_ms;
use super::client::{Client, escape};
use super::document;
use super::failure::{Failure, Result};
use super::list;
use super::print::{Printer, cell, time_from, time_text};

pub(crate) const EXAMPLES: &str = "\
Examples:
  toolgate token create --role orchestrator --organization acme --label 'chat server' --out acme.token
  toolgate token create --role orchestrator --organization acme --agent bot
  toolgate token create --role agent --agent acme/bot
  toolgate token create --role approver --organization acme --expires 90d --address 10.1.0.0/16
  toolgate token list
  toolgate token rotate 0123456789abcdef --out new.token    a new one with its rights, and the old one is revoked
  toolgate token rotate 0123456789abcdef --out toolgate-data/operator.token    the same in the file of the first operator's token
  toolgate token revoke 0123456789abcdef";

#[derive(Subcommand)]
pub enum TokenCommand {
    /// Create a token and print its secret, which is shown only once
    Create {
        /// The role
        #[arg(long, value_parser = PossibleValuesParser::new(Role::ALL.map(Role::as_str)))]
        role: String,
        /// The organization
        #[arg(
            long,
            visible_alias = "org",
            value_name = "ORG",
            required_if_eq_any = [("role", Role::Owner.as_str()), ("role", Role::Orchestrator.as_str()), ("role", Role::Approver.as_str())]
        )]
        organization: Option<String>,
        /// An agent that the token may act for, as AGENT or ORG/AGENT [default: all agents of the organization]
        #[arg(long, value_name = "AGENT")]
        agent: Vec<String>,
        /// A label for people
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
        /// How long the token lasts, such as `90d`, `12h` or `30m`, until when, such as `2026-11-26T08:00:00Z`, or `never` [default: the daemon's `tokens.default_days`, 365]
        #[arg(long, value_name = "TIME", value_parser = parse_expiry)]
        expires: Option<Expiry>,
        /// A network that the token may be used from, such as `10.1.0.0/16` [default: every one]
        #[arg(long, value_name = "NETWORK")]
        address: Vec<String>,
        /// The user that the calls of a token of role `agent` are made for [default: none]
        #[arg(long, value_name = "ID")]
        user: Option<String>,
        /// A new file for the token, which only this user can read [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// List the tokens that are not revoked
    List,
    /// Create a token with the rights of another one, print it, and revoke the other one
    Rotate {
        /// The token's id, as in `list`
        id: String,
        /// How long the new token lasts, until when, or `never` [default: as long as the old one did]
        #[arg(long, value_name = "TIME", value_parser = parse_expiry)]
        expires: Option<Expiry>,
        /// A new file for the token, which only this user can read, or the file of the old token, which is replaced [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Leave the old token as it is, to revoke it once the new one is in use everywhere
        #[arg(long)]
        keep: bool,
    },
    /// Revoke a token permanently; the last operator token cannot be revoked
    Revoke {
        /// The token's id, as in `list`
        id: String,
    },
}

pub(crate) async fn run(command: TokenCommand, client: &Client, printer: &mut Printer<'_>) -> Result {
    match command {
        TokenCommand::Create { role, organization, agent, label, expires, address, user, out } => {
            let (organization, agent) = split_agents(organization, agent);
            let agents = (!agent.is_empty()).then_some(agent);
            let addresses = (!address.is_empty()).then_some(address);
            let (expires_at, never_expires) = expires.map_or((None, false), Expiry::members);
            let request = TokenRequest {
                role,
                organization,
                agents,
                label,
                expires_at,
                never_expires,
                addresses,
                user,
            };
            let file = out.as_deref().map(TokenFile::create).transpose()?;
            create(client, printer, &request, file).await
        }
        TokenCommand::List => list::all(client, printer, "/v1/tokens", HEADINGS, row).await,
        TokenCommand::Rotate { id, expires, out, keep } => {
            rotate(client, printer, &id, expires, out.as_deref()).await?;
            if !keep {
                revoke(client, &id).await?;
                printer.note(&format!("token `{id}` is revoked"))?;
            }
            Ok(())
        }
        TokenCommand::Revoke { id } => {
            ask::before_removal(printer, &format!("token `{id}` for ever"))?;
            revoke(client, &id).await?;
            Ok(printer.result(&json!({"revoked": id}), &format!("token `{id}` is revoked"))?)
        }
    }
}

async fn revoke(client: &Client, id: &str) -> Result {
    client.delete(&format!("/v1/tokens/{}", escape(id))).send::<IgnoredAny>().await?;
    Ok(())
}

/// Creates a token with the rights of another one, and its length of life.
async fn rotate(
    client: &Client,
    printer: &mut Printer<'_>,
    id: &str,
    expires: Option<Expiry>,
    out: Option<&Path>,
) -> Result {
    let tokens: Vec<TokenView> = client.list_all("/v1/tokens").await?;
    let Some(old) = tokens.into_iter().find(|token| token.id == id) else {
        return Err(Failure::new(
            format!("there is no token `{id}`"),
            "`toolgate token list` shows their ids",
        ));
    };
    let same_life = old.expires_at.map_or(Expiry::Never, |expires_at| {
        Expiry::At(now_ms().saturating_add(expires_at.saturating_sub(old.created_ms)))
    });
    let (expires_at, never_expires) = expires.unwrap_or(same_life).members();
    let request = TokenRequest {
        role: old.role.as_str().to_owned(),
        organization: old.organization,
        agents: old.agents,
        label: old.label,
        expires_at,
        never_expires,
        addresses: old.addresses,
        user: old.user,
    };
    let file = out.map(|path| TokenFile::replace(path, id)).transpose()?;
    create(client, printer, &request, file).await
}

/// Takes the organization from agents that are named `ORG/AGENT`. Agents of other organizations are left as they are, and
/// the daemon refuses them.
fn split_agents(organization: Option<String>, agents: Vec<String>) -> (Option<String>, Vec<String>) {
    let named = agents.iter().find_map(|agent| agent.split_once('/')).map(|(named, _)| named.to_owned());
    let organization = organization.or(named);
    let own = |agent: String| match (agent.split_once('/'), &organization) {
        (Some((named, name)), Some(organization)) if named == organization => name.to_owned(),
        _ => agent,
    };
    let agents = agents.into_iter().map(own).collect();
    (organization, agents)
}

/// Writes the token into its file, or prints it alone on standard output. The file is opened by the caller, so that no token is
/// lost for want of a place.
async fn create(
    client: &Client,
    printer: &mut Printer<'_>,
    request: &TokenRequest,
    file: Option<TokenFile<'_>>,
) -> Result {
    let is_printed = file.is_none();
    let mut created: TokenView = client.post("/v1/tokens").json(request).send().await?.body;
    match file {
        Some(file) => {
            let place = file.path.display().to_string();
            file.write(created.token.take().unwrap_or_default().as_str())?;
            printer.result(
                &created,
                &format!("token `{}` is in `{place}`, which only this user can read", created.id),
            )?;
        }
        None => printer.result(&created, created.token.as_deref().unwrap_or_default())?,
    }
    if printer.is_json() {
        return Ok(());
    }
    document::warn(printer, created.warnings.as_deref().unwrap_or_default())?;
    if is_printed {
        printer.note(&format!("created token `{}`; the secret above is shown only once", created.id))?;
    }
    let end = created.expires_at.map(time_text);
    Ok(printer.note(&end.map_or("it does not end".to_owned(), |end| format!("it ends at {end}")))?)
}

/// The file of a token. A new one can be read by this user alone, and is removed where nothing is written into it.
struct TokenFile<'a> {
    path: &'a Path,
    file: Option<File>,
    is_new: bool,
}

impl<'a> TokenFile<'a> {
    fn create(path: &'a Path) -> Result<Self> {
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = opened.map_err(|error| {
            Failure::new(
                format!("`{}` cannot be made: {error}", path.display()),
                "name a new file in a folder that you can write",
            )
        })?;
        Ok(Self { path, file: Some(file), is_new: true })
    }

    /// Opens the file of the token with this id, which keeps its owner and mode, or makes a new file.
    fn replace(path: &'a Path, id: &str) -> Result<Self> {
        let is_of_token = fs::read_to_string(path).is_ok_and(|text| text.starts_with(&format!("tg_{id}_")));
        if !is_of_token {
            return Self::create(path);
        }
        let opened = OpenOptions::new().write(true).open(path);
        let file = opened.map_err(|error| {
            Failure::new(
                format!("`{}` cannot be replaced: {error}", path.display()),
                "run the command as the owner of the file, or name a new file",
            )
        })?;
        Ok(Self { path, file: Some(file), is_new: false })
    }

    fn write(mut self, secret: &str) -> Result {
        if let Some(mut file) = self.file.take() {
            file.set_len(0)?;
            writeln!(file, "{secret}")?;
            file.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for TokenFile<'_> {
    fn drop(&mut self) {
        if self.file.is_some() && self.is_new {
            let _ = fs::remove_file(self.path);
        }
    }
}

/// The end of a token, as a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Milliseconds since 1970.
    At(u64),
    /// It does not end.
    Never,
}

impl Expiry {
    /// The members `expires_at` and `never_expires` of a request.
    fn members(self) -> (Option<u64>, bool) {
        match self {
            Self::At(at_ms) => (Some(at_ms), false),
            Self::Never => (None, true),
        }
    }
}

/// Parses the end of a token: after a duration, at a time, or `never`.
fn parse_expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" {
        return Ok(Expiry::Never);
    }
    match (parse_duration(text), time_from(text)) {
        (Ok(duration), _) => {
            let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            Ok(Expiry::At(now_ms().saturating_add(duration_ms)))
        }
        // A short number is a duration without its unit.
        (_, Ok(at_ms)) if text.len() > 10 => Ok(Expiry::At(at_ms)),
        (Err(error), _) => Err(format!("{error}, a time such as `2026-11-26T08:00:00Z`, or `never`")),
    }
}

/// Parses a number of days, hours or minutes.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let hint = "write a number with `d`, `h` or `m`, such as `90d`";
    let unit = text.chars().last().ok_or(hint)?;
    let seconds = match unit {
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        _ => return Err(hint.to_owned()),
    };
    let count = text[..text.len() - 1].parse::<u32>().ok().filter(|count| *count > 0).ok_or(hint)?;
    Ok(Duration::from_secs(u64::from(count) * seconds))
}

const HEADINGS: [&str; 8] =
    ["ID", "ROLE", "ORGANIZATION", "AGENTS", "CREATED", "LAST USED", "EXPIRES", "LABEL"];

fn row(token: &TokenView) -> [String; 8] {
    [
        token.id.clone(),
        token.role.as_str().to_owned(),
        cell(token.organization.as_ref()),
        cell(token.agents.as_ref().map(|agents| agents.join(",")).as_ref()),
        time_text(token.created_ms),
        cell(token.last_used_ms.map(time_text).as_ref()),
        token.expires_at.map_or("never".to_owned(), time_text),
        token.label.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use toolgate_api::error::{CallError, ErrorType};

    use super::super::testing::{Run, run_with};
    use super::*;
    use crate::client::testing::Canned;

    async fn run_command(command: TokenCommand, json: bool, answers: Vec<Canned>) -> Run {
        run_with(answers, json, async |client, printer| run(command, client, printer).await).await
    }

    fn create(agent: Vec<String>) -> TokenCommand {
        TokenCommand::Create {
            role: "orchestrator".into(),
            organization: Some("acme".into()),
            agent,
            label: "ci".into(),
            expires: None,
            address: Vec::new(),
            user: None,
            out: None,
        }
    }

    #[test]
    fn the_time_of_a_token_is_a_number_with_a_unit() {
        for (text, seconds) in [("90d", 90 * 86_400), ("12h", 12 * 3_600), ("30m", 1_800)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_expiry("2026-11-22T01:02:03.045Z"), Ok(Expiry::At(1_795_309_323_045)));
        assert_eq!(parse_expiry("never"), Ok(Expiry::Never));
        for text in ["soon", "90"] {
            parse_expiry(text).expect_err(text);
        }
        for text in ["", "d", "0d", "1y", "1.5h", "-1d", "1é"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    /// A token with these members.
    fn token(members: Value) -> Value {
        let mut token = json!({"id": "ab", "role": "owner", "organization": "acme", "agents": null, "created_ms": 0,
            "label": "ci"});
        token.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        token
    }

    fn token_response() -> Canned {
        Canned::json(201, token(json!({"token": "tg_ab_secret", "warnings": []})))
    }

    /// operators.md 5: a redirected token is readable for all by the usual umask.
    #[tokio::test]
    async fn a_new_token_is_written_into_a_new_file_of_its_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("acme.token");
        let command = || match create(vec![]) {
            TokenCommand::Create { role, organization, agent, label, expires, address, user, .. } => {
                let out = Some(file.clone());
                TokenCommand::Create { role, organization, agent, label, expires, address, user, out }
            }
            other => other,
        };
        let run = run_command(command(), false, vec![token_response()]).await;
        run.result.expect("created");
        assert!(!run.out.contains("tg_ab_secret") && run.out.contains("acme.token"), "{}", run.out);
        assert_eq!(fs::read_to_string(&file).expect("a token"), "tg_ab_secret\n");
        let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().expect("a file"));
        assert_eq!(mode & 0o777, 0o600);
        let run = run_command(command(), false, vec![]).await;
        run.result.expect_err("the file is there");
        assert!(run.asked.is_empty(), "no token is made");
        fs::remove_file(&file).expect("removed");
        run_command(command(), false, vec![Canned::json(403, json!({}))]).await.result.expect_err("refused");
        assert!(!file.exists());
    }

    #[tokio::test]
    async fn a_new_token_stands_alone_on_standard_output() {
        let run = run_command(create(vec![]), false, vec![token_response()]).await;
        run.result.expect("done");
        assert_eq!(run.out, "tg_ab_secret\n");
        assert!(run.notes.contains("shown only once"));
        let asked: Value = serde_json::from_str(&run.asked[0].body).expect("json");
        assert_eq!(
            asked,
            json!({"role": "orchestrator", "organization": "acme", "agents": null, "label": "ci"})
        );
    }

    #[tokio::test]
    async fn an_agent_that_is_not_there_is_warned_of_beside_the_token() {
        let odd = json!({"code": "UNRESOLVED_AGENT", "path": "/agents/0", "message": "the organization `acme` has no agent `bott`", "nearest": "bot"});
        let made = Canned::json(201, token(json!({"token": "tg_ab_secret", "warnings": [odd]})));
        let run = run_command(create(vec!["bott".into()]), false, vec![made]).await;
        run.result.expect("done");
        assert_eq!(run.out, "tg_ab_secret\n");
        assert!(
            run.notes.contains("has no agent `bott` (`/agents/0`); did you mean `bot`?"),
            "{}",
            run.notes
        );
    }

    #[tokio::test]
    async fn a_new_token_for_machines_is_json() {
        let run = run_command(create(vec!["bot".into()]), true, vec![token_response()]).await;
        assert_eq!(serde_json::from_str::<Value>(&run.out).expect("json")["token"], "tg_ab_secret");
        assert!(run.asked[0].body.contains(r#""agents":["bot"]"#));
    }

    #[tokio::test]
    async fn a_list_shows_who_may_do_what() {
        let item = token(json!({}));
        let run = run_command(
            TokenCommand::List,
            false,
            vec![Canned::json(200, json!({"items": [item], "next_cursor": null}))],
        )
        .await;
        run.result.expect("done");
        assert!(
            run.out.contains(
                "ab  owner  acme          -       1970-01-01T00:00:00.000Z  -          never    ci"
            ),
            "{}",
            run.out
        );
    }

    /// K1: as of the first operator, whose file is replaced and whose token does not end.
    #[tokio::test]
    async fn k1_a_rotated_token_is_written_into_the_file_of_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("operator.token");
        let rotate =
            || TokenCommand::Rotate { id: "ab".into(), expires: None, out: Some(file.clone()), keep: false };
        let listed = || Canned::json(200, json!({"items": [token(json!({}))], "next_cursor": null}));
        fs::write(&file, "tg_cd_of_another_token\n").expect("written");
        let run = run_command(rotate(), false, vec![listed()]).await;
        assert_eq!((run.result.is_err(), run.asked.len()), (true, 1));
        fs::write(&file, "tg_ab_old_and_somewhat_longer\n").expect("written");
        let run = run_command(rotate(), false, vec![listed(), token_response(), Canned::empty(204)]).await;
        run.result.expect("rotated");
        assert_eq!(fs::read_to_string(&file).expect("a token"), "tg_ab_secret\n");
        let asked: Value = serde_json::from_str(&run.asked[1].body).expect("json");
        assert_eq!(json!([asked["never_expires"], asked["expires_at"]]), json!([true, null]));
        assert!(run.notes.contains("it does not end"), "{}", run.notes);
    }

    /// K1: the rights stay, and the old one ends once the new one was told.
    #[tokio::test]
    async fn k1_a_rotated_token_has_its_rights_and_the_old_one_is_revoked() {
        let rotate = |id: &str, keep| TokenCommand::Rotate { id: id.into(), expires: None, out: None, keep };
        let listed = || {
            let old = token(json!({"addresses": ["10.0.0.0/8"], "expires_at": 5_000}));
            Canned::json(200, json!({"items": [old], "next_cursor": null}))
        };
        let run =
            run_command(rotate("ab", false), false, vec![listed(), token_response(), Canned::empty(204)])
                .await;
        run.result.expect("rotated");
        assert_eq!(run.out, "tg_ab_secret\n");
        let asked: Value = serde_json::from_str(&run.asked[1].body).expect("json");
        let rights = json!(["owner", "acme", ["10.0.0.0/8"], "ci"]);
        assert_eq!(json!([asked["role"], asked["organization"], asked["addresses"], asked["label"]]), rights);
        assert!(asked["expires_at"].as_u64().is_some_and(|at_ms| at_ms >= now_ms()), "{asked}");
        assert_eq!(run.asked[2].line(), "DELETE /v1/tokens/ab");
        let kept = run_command(rotate("ab", true), false, vec![listed(), token_response()]).await;
        assert_eq!((kept.result.is_ok(), kept.asked.len()), (true, 2));
        let unknown = run_command(rotate("no", false), false, vec![listed()]).await;
        assert_eq!((unknown.result.is_err(), unknown.asked.len()), (true, 1));
    }

    #[tokio::test]
    async fn a_refusal_is_told_in_the_daemons_words() {
        let refused = CallError::new(ErrorType::Forbidden, "a token of role `owner` may not do this", "h");
        let refused = Canned::refusal(refused);
        let run = run_command(TokenCommand::Revoke { id: "a/b".into() }, false, vec![refused]).await;
        let failure = run.result.expect_err("refused");
        assert_eq!(
            (failure.to_string().as_str(), failure.hint()),
            ("a token of role `owner` may not do this", "h")
        );
        assert_eq!(run.asked[0].line(), "DELETE /v1/tokens/a%2Fb");
    }
}
