use super::Args;

fn parse(line: &str) -> Result<Args, String> {
    Args::parse(line.split_whitespace().map(str::to_owned), &["rounds", "mode"])
}

#[test]
fn a_value_is_found_by_its_name_and_the_default_stands_in() {
    let args = parse("--rounds 7").expect("the line is well formed");
    assert_eq!(args.get("rounds", 1), Ok(7));
    assert_eq!(args.get("mode", "inline".to_owned()), Ok("inline".to_owned()));
}

#[test]
fn a_line_that_would_measure_something_else_is_refused() {
    for line in ["--round 7", "rounds 7", "--rounds"] {
        assert!(parse(line).is_err(), "{line}");
    }
    let args = parse("--rounds many").expect("the line is well formed");
    assert!(args.get("rounds", 1).is_err());
}
