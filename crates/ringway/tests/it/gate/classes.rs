//! Classes of bandwidth for flows whose contents are read.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::beside::{SLOW, Tested, all, reaches_at, slowed, up_to_shape};
use super::border::{Border, SERVER};
use super::both::{Compared, GatePath, on_both};
use super::web::{ENOUGH, comes_by_its_class, get, serve, take};

const CLASS: &str = "[classes.bulk]\nrate = \"16 Mbit/s\"\n\n";
/// The name of each file is looked at, and so each connection is followed.
const NAMES: &str = "[[rule]]\nname = \"programs\"\napp = \"http\"\nfile_name = \"*.exe\"\naction = \"block\"\n\n[[rule]]\nname = \"web\"\napp = \"http\"\naction = \"shape\"\nclass = \"bulk\"\n";
const SCANNED: &str = "[[rule]]\nname = \"web\"\napp = \"http\"\naction = \"scan\"\nclass = \"bulk\"\nfailure = \"closed\"\n";

#[test]
fn read_flows_get_the_rate_of_their_class() -> Tested {
    all(vec![
        on_both("classes of followed flows", |path| kept_to(path, NAMES)),
        on_both("classes of scanned flows", |path| kept_to(path, SCANNED)),
    ])
}

fn kept_to(path: GatePath, policy: &str) -> Compared {
    let test = "classes of followed flows";
    let Some(mut border) = Border::on(test, path) else {
        return Ok(None);
    };
    serve(&border, ENOUGH);
    let rules = border.file("none.yar", "rule nothing { condition: false }");
    let scanner = ["--enforce", "--yara", rules.to_str().unwrap()];
    border.up(&format!("{CLASS}{policy}"), &scanner);
    let mut stream = get(&border);
    // Past the beginning, which the class's burst and the buffers let through faster.
    take(&mut stream, 2 << 20);
    comes_by_its_class(&mut stream);
    let status = border.status();
    let packets = status["packets"].as_u64().unwrap();
    assert!(packets > 500, "the gateway saw {packets} packets only");
    let seen = border.seen()?;
    assert_eq!(border.traces(), "");
    Ok(seen)
}

/// The class of a flow is a place in its mark, which must go on to mean the same class.
#[test]
fn additional_class_moves_no_existing_flow() -> Tested {
    all(vec![on_both("classes from policy to policy", kept_in)])
}

fn kept_in(path: GatePath) -> Compared {
    let Some(mut border) = Border::on("classes from policy to policy", path) else {
        return Ok(None);
    };
    serve(&border, ENOUGH);
    let rule = "[[rule]]\nname = \"web\"\napp = \"http\"\naction = \"shape\"\nclass = \"bulk\"\n";
    border.up(&format!("{CLASS}{rule}"), &["--enforce"]);
    let mut stream = get(&border);
    take(&mut stream, 2 << 20);
    let slow = "[classes.a-slow-one]\nrate = \"4 Mbit/s\"\n\n";
    let next = border.file("next.toml", &format!("{slow}{CLASS}{rule}"));
    let outcome = border.ask(&["apply", next.to_str().unwrap()]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // Packets that waited at that moment are gone with the old classes; their sender repeats them.
    take(&mut stream, 1 << 20);
    comes_by_its_class(&mut stream);
    border.seen()
}

/// A file goes up as fast as its class lets it, measured where it arrives.
pub(super) fn upload(path: GatePath) -> Compared {
    let test = "a shaped upload";
    let Some(mut border) = Border::on(test, path) else {
        return Ok(None);
    };
    let listener = border.server.enter(|| TcpListener::bind((SERVER, 80)))??;
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return;
        };
        let mut buffer = vec![0; 65_536];
        while let Ok(1..) = stream.read(&mut buffer) {}
    });
    up_to_shape(&mut border, &slowed("http"));
    let connect = || TcpStream::connect((SERVER, 80));
    let mut stream = border.client.enter(connect)??;
    let file = vec![0x5a; 40 << 20];
    let head = format!(
        "PUT /film.bin HTTP/1.1\r\nHost: {SERVER}\r\nContent-Length: {}\r\n\r\n",
        file.len()
    );
    let sender = stream.try_clone()?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // It ends when the test has seen enough.
            stream.write_all(head.as_bytes()).ok();
            stream.write_all(&file).ok();
        });
        let outcome = reaches_at(SLOW, &border.server, String::new);
        let seen = border.seen();
        sender.shutdown(std::net::Shutdown::Both).ok();
        outcome?;
        seen
    })
}
