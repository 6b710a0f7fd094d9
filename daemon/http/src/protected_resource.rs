//! The MCP endpoint as an OAuth 2.1 protected resource: its metadata (RFC 9728), and the challenge that leads clients there.

use axum::extract::State;
use axum::http::HeaderValue;
use toolgate_api::credential::ProtectedResourceMetadata;
use toolgate_api::error::ErrorType;
use toolgate_state::config::OauthSection;
use url::Url;

use super::error_responses::NoIssuers;
use super::problem::Problem;
use super::state::App;

/// Get the metadata of the MCP endpoint as an OAuth2 resource.
///
/// The same as for `/mcp`, for clients that ask the host.
#[utoipa::path(
    get, path = "/.well-known/oauth-protected-resource", tag = "tokens", operation_id = "get_host_resource_metadata",
    responses((status = 200, description = "The metadata.", body = ProtectedResourceMetadata), NoIssuers),
)]
pub(crate) async fn of_host(
    State(app): State<App>,
) -> Result<axum::Json<ProtectedResourceMetadata>, Problem> {
    of_mcp(State(app)).await
}

/// Get the metadata of the MCP endpoint as an OAuth2 resource (RFC 9728).
///
/// For clients without a token, which learn where to request one. It needs no token, and the setting `[[oauth.issuers]]`.
#[utoipa::path(
    get, path = "/.well-known/oauth-protected-resource/mcp", tag = "tokens", operation_id = "get_resource_metadata",
    responses((status = 200, description = "The metadata.", body = ProtectedResourceMetadata), NoIssuers),
)]
pub(crate) async fn of_mcp(State(app): State<App>) -> Result<axum::Json<ProtectedResourceMetadata>, Problem> {
    let settings = &app.settings().oauth;
    let resource = settings.resource.clone().ok_or_else(|| {
        Problem::new(
            ErrorType::NotFound,
            "the daemon accepts no access tokens of authorization servers",
            "set `oauth.resource` and `[[oauth.issuers]]`, or use a token that the daemon made",
        )
    })?;
    Ok(axum::Json(ProtectedResourceMetadata {
        resource,
        authorization_servers: settings.issuers().iter().map(|issuer| issuer.issuer.clone()).collect(),
        bearer_methods_supported: vec!["header".to_owned()],
        scopes_supported: settings.scopes.clone(),
        resource_name: "Toolgate".to_owned(),
    }))
}

/// The challenge of a refusal (RFC 6750, section 3); none if no issuer is configured, or another token would not help.
pub(crate) fn challenge(settings: &OauthSection, problem: &Problem, has_token: bool) -> Option<HeaderValue> {
    let metadata = metadata_url(settings.resource.as_deref()?)?;
    let code = match problem.0.error_type {
        ErrorType::Unauthenticated if has_token => Some("invalid_token"),
        ErrorType::Unauthenticated => None,
        ErrorType::Forbidden if settings.scopes.is_some() => Some("insufficient_scope"),
        _ => return None,
    };
    let mut challenge = format!("Bearer resource_metadata=\"{metadata}\"");
    if let Some(scopes) = &settings.scopes {
        challenge += &format!(", scope=\"{}\"", scopes.join(" "));
    }
    if let Some(code) = code {
        challenge +=
            &format!(", error=\"{code}\", error_description=\"{}\"", description(&problem.0.message));
    }
    HeaderValue::try_from(challenge).ok()
}

/// The URL of the metadata: the well-known path before the path of the resource (RFC 9728, section 3.1).
fn metadata_url(resource: &str) -> Option<Url> {
    let mut url = Url::parse(resource).ok()?;
    let path = format!("/.well-known/oauth-protected-resource{}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Some(url)
}

/// A message within the characters of `error_description`.
fn description(message: &str) -> String {
    let allowed = |letter: char| if matches!(letter, ' '..='~') { letter } else { '?' };
    message
        .chars()
        .map(allowed)
        .map(|letter| if matches!(letter, '"' | '\\') { '\'' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_state::config::Config;

    fn settings() -> OauthSection {
        let text = "allowed_hosts = [\"tools.example\"]\n[oauth]\nresource = \"https://tools.example/mcp\"\n\
                    scopes = [\"a\", \"b\"]\n[[oauth.issuers]]\nissuer = \"https://a.example\"";
        Config::parse(text, std::path::Path::new("toolgate.toml")).expect("settings").oauth
    }

    #[test]
    fn m2_a_challenge_names_the_metadata_and_the_fault() {
        let start = "Bearer resource_metadata=\"https://tools.example/.well-known/oauth-protected-resource/mcp\", \
                     scope=\"a b\"";
        let refusal = |error_type| Problem::new(error_type, "bad \"kid\\\u{e9}\"", "");
        let text = |error_type, has_token| {
            let challenge = challenge(&settings(), &refusal(error_type), has_token);
            challenge.map(|value| value.to_str().expect("a header").to_owned())
        };
        assert_eq!(text(ErrorType::Unauthenticated, false).as_deref(), Some(start));
        assert_eq!(
            text(ErrorType::Unauthenticated, true),
            Some(format!("{start}, error=\"invalid_token\", error_description=\"bad 'kid'?'\""))
        );
        assert!(text(ErrorType::Forbidden, true).is_some_and(|text| text.contains("insufficient_scope")));
        assert_eq!(text(ErrorType::Unavailable, true), None);
        let none = challenge(&OauthSection::default(), &refusal(ErrorType::Unauthenticated), true);
        assert_eq!(none, None);
    }
}
