use super::*;

#[test]
fn an_api_requires_an_operation_that_its_resource_knows() {
    for api in SERVED {
        if let Some((operation, resource)) = required(*api) {
            assert_ne!(resource.operations() & operation.bit(), 0, "{api:?}");
        }
    }
}

#[test]
fn only_handshakes_and_delegation_tokens_require_no_operation() {
    use ApiKey::*;
    let open: Vec<_> = SERVED.iter().filter(|api| required(**api).is_none()).collect();
    let expected = [
        &SaslHandshake,
        &ApiVersions,
        &SaslAuthenticate,
        &CreateDelegationToken,
        &RenewDelegationToken,
        &ExpireDelegationToken,
        &DescribeDelegationToken,
    ];
    assert_eq!(open, expected);
}

#[test]
fn an_unknown_api_waits_for_nothing_and_runs_alone() {
    let unknown = ApiPolicy { lane: Lane::Control, overlap: Overlap::Alone, inline: false };
    assert_eq!((policy(-1), policy(9_999)), (unknown, unknown));
}
