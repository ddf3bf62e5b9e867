//! The console: pages for people, from files in the binary.
//!
//! The files hold no fact about the broker, so everyone who reaches the port gets them. What the
//! pages show comes from the API, which asks for the token where there is one. The policy lets a
//! page load code, styles and answers from this port only, and run no code that stands in a page.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::refusal::Refusal;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
    require-trusted-types-for 'script'";
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// One file: its path below `/console/`, its type, its content.
struct File(&'static str, &'static str, &'static str);

macro_rules! files {
    ($($kind:ident $path:literal;)*) => {
        &[$(File($path, $kind, include_str!(concat!("console/", $path)))),*]
    };
}

/// Every file of the console.
const FILES: &[File] = files! {
    HTML "index.html";
    STYLE "style.css";
    PICTURE "icon.svg";
    SCRIPT "app.js";
    SCRIPT "api.js";
    SCRIPT "command.js";
    SCRIPT "changes.js";
    SCRIPT "live.js";
    SCRIPT "format.js";
    SCRIPT "parts.js";
    SCRIPT "whose.js";
    SCRIPT "chart.js";
    SCRIPT "plane/layout.js";
    SCRIPT "plane/picture.js";
    SCRIPT "plane/dots.js";
    SCRIPT "plane/waterfall.js";
    SCRIPT "pages/plane.js";
    SCRIPT "pages/overview.js";
    SCRIPT "pages/topics.js";
    SCRIPT "pages/messages.js";
    SCRIPT "pages/partitions.js";
    SCRIPT "pages/keys.js";
    SCRIPT "pages/groups.js";
    SCRIPT "pages/clients.js";
    SCRIPT "pages/reports.js";
    SCRIPT "pages/broker.js";
    SCRIPT "pages/cluster.js";
    SCRIPT "pages/faults.js";
    SCRIPT "pages/copies.js";
    SCRIPT "vendor/preact.js";
    SCRIPT "vendor/uPlot.js";
    STYLE "vendor/uPlot.css";
};

/// The paths of the console.
pub(super) fn router() -> Router {
    Router::new()
        .route("/console", get(|| async { answer("index.html") }))
        .route("/console/", get(|| async { answer("index.html") }))
        .route("/console/{*path}", get(|Path(path): Path<String>| async move { answer(&path) }))
}

fn answer(path: &str) -> Response {
    let Some(File(_, kind, content)) = FILES.iter().find(|file| file.0 == path) else {
        let why = "the console has no such file";
        let hint = "open /console.";
        return Refusal::new(StatusCode::NOT_FOUND, "there is nothing here", why, hint)
            .into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another release of the broker brings other files, which fit each other only.
        (header::CACHE_CONTROL, "no-store"),
        (RESOURCE_POLICY, "same-origin"),
    ];
    (headers, *content).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// What the type checker and lawyers read stays out of the binary.
    fn is_served(name: &str) -> bool {
        !name.ends_with(".d.ts") && !name.ends_with(".json") && !name.contains("LICENSE")
    }

    fn below(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                below(&path, root, found);
                continue;
            }
            let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
            if is_served(&name) {
                found.insert(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin_http/console");
        let mut found = BTreeSet::new();
        below(&root, &root, &mut found);
        assert_eq!(found, FILES.iter().map(|file| file.0.to_owned()).collect());
    }

    #[test]
    fn the_console_is_at_most_200_kb() {
        let bytes: usize = FILES.iter().map(|file| file.2.len()).sum();
        assert!(bytes <= 200_000, "{bytes}");
    }

    #[test]
    fn no_file_asks_another_place() {
        for File(path, _, content) in FILES {
            let own = content.replace("http://www.w3.org/", "").replace("https://github.com/", "");
            assert!(!own.contains("http://") && !own.contains("https://"), "{path}");
        }
    }
}
