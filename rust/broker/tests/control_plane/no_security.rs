//! What a broker without logins, ACLs and quotas says of them.

use super::*;
use kafkalite_protocol::messages::create_acls::{AclCreation, CreateAclsRequest};
use kafkalite_protocol::messages::create_delegation_token::CreateDelegationTokenRequest;
use kafkalite_protocol::messages::delete_acls::{DeleteAclsFilter, DeleteAclsRequest};
use kafkalite_protocol::messages::describe_acls::DescribeAclsRequest;
use kafkalite_protocol::messages::describe_client_quotas::{
    ComponentData, DescribeClientQuotasRequest,
};
use kafkalite_protocol::messages::describe_delegation_token::DescribeDelegationTokenRequest;
use kafkalite_protocol::messages::describe_user_scram_credentials::{
    DescribeUserScramCredentialsRequest, UserName,
};
use kafkalite_protocol::messages::expire_delegation_token::ExpireDelegationTokenRequest;
use kafkalite_protocol::messages::renew_delegation_token::RenewDelegationTokenRequest;
use kafkalite_protocol::messages::sasl_authenticate::SaslAuthenticateRequest;
use kafkalite_protocol::messages::sasl_handshake::SaslHandshakeRequest;

#[test]
fn there_is_no_authorizer() {
    let mut fixture = Fixture::new();
    for version in 1..=3 {
        let response = fixture.call(&DescribeAclsRequest::default(), version);
        let told = (response.error_code, response.error_message);
        let expected = "No Authorizer is configured on the broker";
        assert_eq!(told, error(ErrorCode::SecurityDisabled, expected));
    }
}

#[test]
fn acls_are_neither_created_nor_deleted_and_each_hears_why() {
    let mut fixture = Fixture::new();
    let refused = error(ErrorCode::SecurityDisabled, "No Authorizer is configured.");
    let two = CreateAclsRequest { creations: vec![AclCreation::default(); 2] };
    let three = DeleteAclsRequest { filters: vec![DeleteAclsFilter::default(); 3] };
    for version in 1..=3 {
        let created = fixture.call(&two, version).results;
        let told: Vec<_> =
            created.into_iter().map(|one| (one.error_code, one.error_message)).collect();
        assert_eq!(told, vec![refused.clone(); 2]);
        let deleted = fixture.call(&three, version).filter_results;
        assert!(deleted.iter().all(|one| one.matching_acls.is_empty()));
        let told: Vec<_> =
            deleted.into_iter().map(|one| (one.error_code, one.error_message)).collect();
        assert_eq!(told, vec![refused.clone(); 3]);
    }
}

#[test]
fn this_is_not_the_moment_to_log_in() {
    let mut fixture = Fixture::new();
    for version in 0..=1 {
        let response = fixture.call(&SaslHandshakeRequest { mechanism: "PLAIN".into() }, version);
        assert_eq!(response.error_code, ErrorCode::IllegalSaslState.code());
        assert_eq!(response.mechanisms, [""; 0]);
    }
    for version in 0..=2 {
        let response = fixture.call(&SaslAuthenticateRequest::default(), version);
        let told = (response.error_code, response.error_message);
        let expected = "SaslAuthenticate request received after successful authentication";
        assert_eq!(told, error(ErrorCode::IllegalSaslState, expected));
    }
}

#[test]
fn there_are_no_quotas_and_filters_that_make_no_sense_are_refused() {
    let mut fixture = Fixture::new();
    let component = |entity_type: &str, match_type| ComponentData {
        entity_type: entity_type.to_owned(),
        match_type,
        r#match: (match_type != 2).then(|| "x".to_owned()),
    };
    let invalid = ErrorCode::InvalidRequest;
    for (components, code, message) in [
        (vec![], ErrorCode::None, ""),
        (vec![component("user", 0)], ErrorCode::None, ""),
        (
            vec![component("bogus", 0)],
            ErrorCode::UnsupportedVersion,
            "Unsupported entity type bogus",
        ),
        (vec![component("", 0)], invalid, "Invalid empty entity type."),
        (
            vec![component("user", 0), component("user", 0)],
            invalid,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (vec![component("user", 7)], invalid, "Unknown match type 7"),
        (
            vec![component("user", 1)],
            invalid,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            vec![component("ip", 2), component("user", 2)],
            invalid,
            "Invalid entity filter component combination. IP filter component should not be used \
             with user or clientId filter component.",
        ),
    ] {
        let request = DescribeClientQuotasRequest { components, strict: false };
        for version in 0..=1 {
            let response = fixture.call(&request, version);
            assert_eq!((response.error_code, response.error_message), error(code, message));
            assert_eq!(response.entries.is_some(), code.is_none());
        }
    }
}

#[test]
fn no_user_has_scram_credentials() {
    let mut fixture = Fixture::new();
    let all = DescribeUserScramCredentialsRequest { users: None };
    assert_eq!(fixture.call(&all, 0).results, []);
    let users = ["u", "v", "v"].map(|name| UserName { name: name.to_owned() });
    let some = DescribeUserScramCredentialsRequest { users: Some(users.to_vec()) };
    let response = fixture.call(&some, 0);
    let told: Vec<_> = response.results.iter().map(|r| (r.user.as_str(), r.error_code)).collect();
    let (missing, twice) =
        (ErrorCode::ResourceNotFound.code(), ErrorCode::DuplicateResource.code());
    assert_eq!(told, [("u", missing), ("v", twice)]);
}

#[test]
fn who_has_not_logged_in_gets_no_delegation_token() {
    let mut fixture = Fixture::new();
    let refused = ErrorCode::DelegationTokenRequestNotAllowed.code();
    for version in 1..=3 {
        let created = fixture.call(&CreateDelegationTokenRequest::default(), version);
        let told = (created.error_code, created.principal_name.as_str(), created.max_timestamp_ms);
        assert_eq!(told, (refused, "ANONYMOUS", -1));
        let described = fixture.call(&DescribeDelegationTokenRequest::default(), version);
        assert_eq!((described.error_code, described.tokens), (refused, vec![]));
    }
    for version in 1..=2 {
        let renewed = fixture.call(&RenewDelegationTokenRequest::default(), version);
        assert_eq!((renewed.error_code, renewed.expiry_timestamp_ms), (refused, -1));
        let expired = fixture.call(&ExpireDelegationTokenRequest::default(), version);
        assert_eq!((expired.error_code, expired.expiry_timestamp_ms), (refused, -1));
    }
}
