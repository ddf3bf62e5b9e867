use super::*;

#[test]
fn every_error_comes_back_from_its_number() {
    for (error, name, _) in TABLE {
        assert_eq!(ErrorCode::from_code(error.code()), *error);
        assert_eq!(error.name(), *name);
    }
}

#[test]
fn an_unknown_number_is_an_unknown_server_error() {
    for code in [-2, 30_000, i16::MIN] {
        assert_eq!(ErrorCode::from_code(code), ErrorCode::UnknownServerError);
    }
}
