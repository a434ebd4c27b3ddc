//! Classes of bandwidth for flows whose contents are read.

use std::time::Instant;

use super::border::Border;
use super::web::{get, serve, take};

const CLASS: &str = "[classes.bulk]\nrate = \"16 Mbit/s\"\n\n";
/// The name of each file is looked at, and so each connection is followed.
const NAMES: &str = "[[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\n[[rule]]\nname = \"web\"\napp = \"http\"\naction = \"shape\"\nclass = \"bulk\"\n";
const SCANNED: &str = "[[rule]]\nname = \"web\"\napp = \"http\"\naction = \"scan\"\nclass = \"bulk\"\nfailure = \"closed\"\n";

#[test]
fn flows_that_are_followed_or_scanned_get_the_rate_of_their_class() {
    let Some(mut border) = Border::new("classes of followed flows") else {
        return;
    };
    serve(&border, 20 << 20);
    let rules = border.file("none.yar", "rule nothing { condition: false }");
    let scanner = ["--enforce", "--yara", rules.to_str().unwrap()];
    for (what, policy) in [("followed", NAMES), ("scanned", SCANNED)] {
        border.up(&format!("{CLASS}{policy}"), &scanner);
        let mut stream = get(&border);
        // Past the beginning, which the class's burst and the buffers let through faster.
        take(&mut stream, 2 << 20);
        let begun = Instant::now();
        let bytes = take(&mut stream, 8 << 20);
        let rate = 8.0 * f64::from(u32::try_from(bytes).unwrap()) / begun.elapsed().as_secs_f64();
        // Within 5 % of the class, of which headers take another 5 % at most.
        assert!((14.4e6..16.8e6).contains(&rate), "{what}: {rate} bit/s");
        let status = border.status();
        let packets = status["packets"].as_u64().unwrap();
        assert!(
            packets > 500,
            "{what}: the gateway saw {packets} packets only"
        );
        border.daemon().terminate().unwrap();
        assert_eq!(border.traces(), "");
    }
}
