//! Published documents, which are large and not ours to keep: put some into a folder and name it in `OPENAPI_DOCUMENTS`.

#![allow(clippy::disallowed_methods, reason = "the folder is named where the test is run")]

use std::fs;

use toolgate_openapi::Wanted;

use super::imported;

#[test]
#[ignore = "needs a folder of published documents, named in `OPENAPI_DOCUMENTS`"]
fn c2_what_is_imported_of_published_documents_the_daemon_takes() {
    let folder = std::env::var("OPENAPI_DOCUMENTS").expect("a folder in `OPENAPI_DOCUMENTS`");
    let wanted = Wanted { base_url: Some("https://api.example.com"), ..Wanted::all("api") };
    let mut taken = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let Ok(text) = fs::read_to_string(entry.expect("an entry").path()) else { continue };
        taken += usize::from(imported(&text, &wanted).is_ok());
    }
    assert!(taken > 0, "no document of the folder was taken");
}
