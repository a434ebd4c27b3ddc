//! The step in which each host gets a quota. What quotas do is tried in [`super::super::quotas`].

use super::super::beside::Tested;
use super::{Reader, has};

pub(super) fn give_each_host(reader: &mut Reader) -> Tested {
    let rule = reader.block("toml")?;
    let rule = reader.border.file("quota.toml", rule);
    reader.shell(&format!(
        "sh -c '(echo; cat {}) >> /etc/ringway/border.toml'",
        rule.display()
    ))?;
    let lines = reader.lines(&[
        "ringway gate check /etc/ringway/border.toml",
        "ringway gate apply /etc/ringway/border.toml",
        "ringway gate quotas",
    ])?;
    let checked = reader.shell(lines[0])?;
    has(&checked, "4 rules, 1 tests passed")?;
    has(&checked, "5.00 GiB a day")?;
    has(&checked, "they go on in class `used-up`")?;
    reader.shell(lines[1])?;
    has(&reader.shell(lines[2])?, "RESETS AT")
}
