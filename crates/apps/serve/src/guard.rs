//! Decides which requests are answered: the addresses of this server, its own page, and the right token.

use crate::error::ApiError;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// A random secret of 256 bits, as hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl core::fmt::Debug for Token {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Draws a token.
    pub(crate) fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the digits.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Compares the token with a text. The time depends only on the length of the text.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let token = self.0.as_bytes();
        let difference = token.iter().zip(text).fold(0, |difference, (a, b)| difference | (a ^ b));
        core::hint::black_box(difference) == 0 && token.len() == text.len()
    }
}

/// What requests must contain.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The values of `Host` that name this server.
    hosts: [String; 2],
    /// The origins of this server's page.
    origins: [String; 2],
    token: Token,
}

impl Guard {
    /// Protects the server on this port.
    pub(crate) fn new(port: u16, token: Token) -> Self {
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let origins = hosts.each_ref().map(|host| format!("http://{host}"));
        Self { hosts, origins, token }
    }

    fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        // After DNS rebinding, the browser sends the name of the foreign page.
        let is_own = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        if !host.is_some_and(is_own) || hosts.next().is_some() {
            return Err(ApiError::ForeignHost);
        }
        if uri.authority().is_some_and(|authority| !is_own(authority.as_str())) {
            return Err(ApiError::ForeignHost);
        }
        for origin in headers.get_all(header::ORIGIN) {
            if !self.origins.iter().any(|own| own.as_bytes() == origin.as_bytes()) {
                return Err(ApiError::ForeignOrigin);
            }
        }
        if uri.path().starts_with("/api/") {
            let value = headers.get(header::AUTHORIZATION).map_or(&[][..], HeaderValue::as_bytes);
            let token = value.strip_prefix(b"Bearer ").unwrap_or_default();
            if !self.token.matches(token) {
                return Err(ApiError::WrongToken);
            }
        }
        Ok(())
    }
}

/// The policy of answers without their own policy: nothing may be loaded.
const NO_CONTENT: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Checks a request and adds the security headers to its answer.
pub(crate) async fn check_request(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static(NO_CONTENT);
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (header::HeaderName::from_static(name), HeaderValue::from_str(value).expect("a plain value"))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in list.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn only_the_exact_token_matches() {
        let token = Token::generate().expect("the system has random numbers");
        assert_eq!(token.text().len(), 64);
        assert!(token.matches(token.text().as_bytes()));
        let longer = format!("{}0", token.text());
        for wrong in ["", &token.text()[1..], &longer, &"0".repeat(64)] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
        assert_ne!(token, Token::generate().expect("the system has random numbers"));
        assert!(!format!("{token:?}").contains(token.text()));
    }

    #[test]
    fn foreign_hosts_origins_and_tokens_are_refused() {
        let token = Token::generate().expect("the system has random numbers");
        let bearer = format!("Bearer {}", token.text());
        let guard = Guard::new(8000, token);
        let check = |uri: &str, list: &[(&'static str, &str)]| {
            let uri: Uri = uri.parse().expect("a valid URI");
            guard.check(&uri, &headers(list)).map_err(|error| error.to_string())
        };
        let own = ("host", "127.0.0.1:8000");
        assert_eq!(check("/", &[own]), Ok(()));
        assert_eq!(check("/", &[("host", "LOCALHOST:8000")]), Ok(()));
        assert_eq!(check("/api/runs", &[own, ("authorization", &bearer)]), Ok(()));
        let origin = ("origin", "http://localhost:8000");
        assert_eq!(check("/api/runs", &[own, ("authorization", &bearer), origin]), Ok(()));
        for foreign in ["evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "127.0.0.1:8000.evil.example", ""]
        {
            let error = check("/", &[("host", foreign)]).expect_err(foreign);
            assert!(error.contains("Host"), "{error}");
        }
        assert!(check("/", &[]).is_err());
        assert!(check("/", &[own, own]).is_err());
        assert!(check("http://evil.example/", &[own]).is_err());
        for foreign in ["http://evil.example", "null", "http://127.0.0.1:8001", "https://127.0.0.1:8000"] {
            let list = [own, ("authorization", bearer.as_str()), ("origin", foreign)];
            let error = check("/api/runs", &list).expect_err(foreign);
            assert!(error.contains("another web page"), "{error}");
        }
        for wrong in ["", "Bearer ", "Bearer 00", &bearer["Bearer ".len()..]] {
            let error = check("/api/runs", &[own, ("authorization", wrong)]).expect_err(wrong);
            assert!(error.contains("token"), "{error}");
        }
    }
}
