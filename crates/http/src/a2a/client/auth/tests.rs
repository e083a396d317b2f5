use super::*;

const SECRET: &str = "hush-1234";

fn card(schemes: &str, requirements: &str) -> JsonText {
    let text = format!(r#"{{"securitySchemes": {schemes}, {requirements}}}"#);
    JsonText::parse(&text).unwrap()
}

fn file(text: &str, mode: u32) -> (tempfile::TempDir, SecretSource) {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    (dir, SecretSource::File(path))
}

fn with(name: &str, source: &SecretSource) -> Secrets {
    Secrets { named: [(name.to_owned(), source.clone())].into(), prefix: None }
}

fn pairs(shown: &ShownCredentials) -> Vec<(String, String)> {
    let headers = shown.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    headers.chain(shown.query.iter().cloned()).collect()
}

#[test]
fn each_scheme_of_both_versions_shows_its_secret_at_its_place() {
    let (_dir, source) = file(&format!("{SECRET}\n"), 0o600);
    let (_pair_dir, pair) = file("ada:pw", 0o400);
    for (scheme, name, value) in [
        (r#"{"httpAuthSecurityScheme": {"scheme": "Bearer"}}"#, "authorization", format!("Bearer {SECRET}")),
        (r#"{"type": "http", "scheme": "bearer"}"#, "authorization", format!("Bearer {SECRET}")),
        (r#"{"oauth2SecurityScheme": {"flows": {}}}"#, "authorization", format!("Bearer {SECRET}")),
        (r#"{"type": "oauth2", "flows": {}}"#, "authorization", format!("Bearer {SECRET}")),
        (r#"{"type": "openIdConnect"}"#, "authorization", format!("Bearer {SECRET}")),
        (r#"{"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}"#, "x-key", SECRET.to_owned()),
        (r#"{"type": "apiKey", "in": "query", "name": "key"}"#, "key", SECRET.to_owned()),
        (r#"{"type": "apiKey", "in": "cookie", "name": "sid"}"#, "cookie", format!("sid={SECRET}")),
    ] {
        for requirement in
            [r#""securityRequirements": [{"schemes": {"s": {"list": []}}}]"#, r#""security": [{"s": []}]"#]
        {
            let card = card(&format!(r#"{{"s": {scheme}}}"#), requirement);
            let shown = shown(&card, "http://h", &with("s", &source)).unwrap();
            assert_eq!(pairs(&shown), [(name.to_owned(), value.clone())], "{scheme}");
            assert!(!format!("{shown:?}").contains("hush"), "{shown:?}");
        }
    }
    let basic = card(r#"{"s": {"type": "http", "scheme": "basic"}}"#, r#""security": [{"s": []}]"#);
    let shown_pair = shown(&basic, "http://h", &with("s", &pair)).unwrap();
    assert_eq!(pairs(&shown_pair), [("authorization".to_owned(), "Basic YWRhOnB3".to_owned())]);
    let error = shown(&basic, "http://h", &with("s", &source)).unwrap_err().to_string();
    assert!(error.contains("name:password") && !error.contains("hush"), "{error}");
}

#[test]
fn of_the_alternatives_the_first_that_can_be_met_is_chosen_and_an_error_says_what_is_missing() {
    let schemes = r#"{"a": {"type": "http", "scheme": "bearer"}, "b": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "c": {"type": "mutualTLS"}}"#;
    let (_dir, source) = file(SECRET, 0o600);
    let either = card(schemes, r#""security": [{"c": []}, {"a": [], "b": []}, {"b": []}]"#);
    let chosen = shown(&either, "http://h", &with("b", &source)).unwrap();
    assert_eq!(pairs(&chosen), [("x-key".to_owned(), SECRET.to_owned())]);
    let prefixed = Secrets { named: BTreeMap::new(), prefix: Some("TASKREEL_NONE_OF_THESE".to_owned()) };
    let error = shown(&either, "http://h", &prefixed).unwrap_err().to_string();
    for words in
        ["`c` (mutual TLS", "`a` (bearer token)", "the variable TASKREEL_NONE_OF_THESE_A", "not set", "X-Key"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
    let error = shown(&either, "http://h", &Secrets::default()).unwrap_err().to_string();
    assert!(error.contains("no variable and no file was named"), "{error}");
    let open = card(schemes, r#""security": []"#);
    assert!(shown(&open, "http://h", &Secrets::default()).unwrap().is_empty());
    let optional = card(schemes, r#""security": [{}, {"a": []}]"#);
    assert!(shown(&optional, "http://h", &Secrets::default()).unwrap().is_empty());
}

#[test]
fn a_file_that_others_may_read_and_a_wrong_secret_are_refused_without_their_text() {
    let wanted =
        card(r#"{"s": {"type": "apiKey", "in": "cookie", "name": "sid"}}"#, r#""security": [{"s": []}]"#);
    for (text, mode, words) in [
        (SECRET, 0o640, "0600"),
        (SECRET, 0o604, "0600"),
        ("", 0o600, "empty"),
        ("hush;x=1", 0o600, "cookie"),
        ("hush\u{7}", 0o600, "header"),
        (&*"hush".repeat(SECRET_MAX), 0o600, "bytes"),
    ] {
        let (_dir, source) = file(text, mode);
        let error = shown(&wanted, "http://h", &with("s", &source)).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("secret") && !error.contains("hush"), "{error}");
    }
    let nowhere = SecretSource::File(PathBuf::from("/nowhere/secret"));
    let error = shown(&wanted, "http://h", &with("s", &nowhere)).unwrap_err().to_string();
    assert!(error.contains("/nowhere/secret"), "{error}");
}

#[test]
fn schemes_of_any_shape_are_read_without_harm() {
    let (_dir, source) = file(SECRET, 0o600);
    for scheme in [
        "5",
        "[]",
        "{}",
        "null",
        r#"{"type": 5}"#,
        r#"{"type": "apiKey"}"#,
        r#"{"httpAuthSecurityScheme": 1}"#,
    ] {
        let odd = card(&format!(r#"{{"s": {scheme}}}"#), r#""security": [{"s": []}, 5, [], "x"]"#);
        // A requirement that names nothing asks for nothing.
        shown(&odd, "http://h", &with("s", &source)).unwrap();
        let only = card(&format!(r#"{{"s": {scheme}}}"#), r#""security": [{"s": []}]"#);
        shown(&only, "http://h", &with("s", &source)).unwrap_err();
    }
}
