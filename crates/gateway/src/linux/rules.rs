//! The packet filter's rules: chains of our own in the table `mangle`, and two jumps to them.
//!
//! | chain | stands in | does |
//! |---|---|---|
//! | `RINGWAY-CROSSING` | FORWARD | lets go what is let through for good, and what the in-kernel path need not ask about; finds what else crosses the border |
//! | `RINGWAY` | that | drops what is blocked by its connection's mark, passes what the server sends while a file goes by that is not read, with pure ACKs, and queues the rest |
//! | `RINGWAY-ASK` | that | undecided flows: refuses new connections that match a blocked one, and queues the rest |
//! | `RINGWAY-FREE` | `RINGWAY-CROSSING` | marks connections of which the kernel has seen enough |
//! | `RINGWAY-MARK` | FORWARD, first of all | takes packets that come back from the queue with a verdict as their mark: saves it to the connection, takes the bits off the packet, drops what is blocked |
//! | `RINGWAY-CLASS` | `RINGWAY`, `RINGWAY-MARK` | puts the packets of classes into theirs |
//! | `RINGWAY-CLASS-N` | that | puts those of a class with shares into them |
//!
//! Most packets are of connections that are let through for good. Marks show them, before anything
//! compares interfaces' names, which costs several times as much: they meet one match, and no
//! other hook. So a verdict sends its packet through FORWARD's rules once more (`NF_REPEAT`) in
//! place of on to POSTROUTING, where each packet of every connection would be looked at for the
//! sake of the few that were queued. Rules of the host are neither changed nor moved; those in
//! FORWARD stand between our two jumps: each packet meets them once, before it is queued, also
//! where no gateway reads the queue.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::border::Border;
use super::class_rules::{CLASS, ClassRules, Ip};
use super::family::{FAMILIES, Family};
use super::kernel;
use super::marks::{Hex, Marks};
use super::pure_acks::Program;
use super::saved::{is_whole, list, removal, returned_mark, stale, standing};
use super::tool::ToolError;
use crate::verdict::Offload;

/// What the kernel forwards passes here.
pub(super) const HOOK: &str = "FORWARD";
pub(super) const CROSSING: &str = "RINGWAY-CROSSING";
const FORWARD: &str = "RINGWAY";
const UNDECIDED: &str = "RINGWAY-ASK";
/// What comes back from the queue with a verdict goes through here.
pub(super) const MARK: &str = "RINGWAY-MARK";
/// What passes without being asked about goes through here.
const FREE: &str = "RINGWAY-FREE";
/// All of ours but those of single classes.
pub(super) const CHAINS: [&str; 6] = [CROSSING, FORWARD, UNDECIDED, FREE, MARK, CLASS];
/// Beside what others have. Another program that changes rules is waited for, so many seconds (the
/// older iptables has a lock, and waits for ever if no time is given; the newer one has none).
const RESTORE: [&str; 3] = ["--noflush", "--wait", "10"];
/// What the older one says of it then.
const LOCK: &str = "xtables lock";
/// What the rules are made of.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The border.
    pub border: Border,
    /// Our bits of marks.
    pub marks: Marks,
    /// The first queue.
    pub queue: u16,
    /// How many pairs of queues share the flows, at least 1.
    pub queues: u16,
    /// Packets go on when no gateway reads the queue; else they are dropped.
    pub fail_open: bool,
    /// Number of classes of bandwidth.
    pub classes: usize,
    /// They end in shares: a packet's host says which.
    pub shares: bool,
    /// The programs of the in-kernel path, if there is one.
    pub programs: Option<Programs>,
    /// It refuses new connections that match a blocked one.
    pub refuses: bool,
    /// It rules out what need not be asked about.
    pub triage: bool,
    /// What is neither TCP nor UDP is dropped, unless it is an error that belongs to a flow.
    pub drops_other: bool,
}

/// The programs of the in-kernel path.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Where they are pinned.
    pub folder: PathBuf,
    /// Without them there are no rules; else there are those that do without.
    pub needed: bool,
}

/// What the packet filter's own programs were put in force for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetUp {
    /// Segments without data are left to the kernel.
    pub acks_bypassed: bool,
    /// Why the programs of the in-kernel path are not asked; `None`: they are, or there are none.
    pub unasked: Option<String>,
}

/// The rules of a gateway as the packet filter lists them: equal as long as no other program
/// changes them, or puts others before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing(Vec<Vec<String>>);

impl Rules {
    /// The numbers of the queues: for new flows, and for connections whose contents are followed.
    #[must_use]
    pub fn numbers(&self) -> (RangeInclusive<u16>, RangeInclusive<u16>) {
        let more = self.queues.saturating_sub(1);
        let second = self.queue.saturating_add(self.queues);
        (
            self.queue..=self.queue.saturating_add(more),
            second..=second.saturating_add(more),
        )
    }

    /// Puts the rules in force, in place of any that an earlier run left. Returns what of it
    /// programs do; none do anything where the kernel has no match `bpf`.
    ///
    /// # Errors
    /// iptables is missing or refuses.
    pub fn set_up(&self) -> Result<SetUp, ToolError> {
        match (self.put(), &self.programs) {
            (Err(refused), Some(programs))
                if !programs.needed && !refused.to_string().contains(LOCK) =>
            {
                let without = Rules {
                    programs: None,
                    ..self.clone()
                };
                Ok(SetUp {
                    unasked: Some(refused.to_string()),
                    ..without.put()?
                })
            }
            (set_up, _) => set_up,
        }
    }

    fn put(&self) -> Result<SetUp, ToolError> {
        let mut acks_bypassed = true;
        for Family {
            ip,
            save,
            restore,
            bare,
        } in FAMILIES
        {
            let stale = stale(&list(save)?, &self.class_rules().chains());
            let put = |bare| restore.run(&RESTORE, &self.text(ip, &stale, bare));
            match put(Some(bare)) {
                Ok(_) => {}
                // Having waited for the lock in vain says nothing of matches.
                Err(refused) if refused.to_string().contains(LOCK) => return Err(refused),
                Err(_) => {
                    acks_bypassed = false;
                    put(None)?;
                }
            }
        }
        Ok(SetUp {
            acks_bypassed,
            unasked: None,
        })
    }

    /// Whether what stands is all of these rules, as far as their number shows, with no others
    /// before and behind them.
    #[must_use]
    pub fn are_whole(&self, standing: &Standing) -> bool {
        // At least those that there are without programs.
        let rules = Rules {
            programs: None,
            ..self.clone()
        };
        let text = rules.text(Ip::V4, &[], None);
        let least = text.lines().filter(|line| line.starts_with('-')).count();
        !standing.0.is_empty() && standing.0.iter().all(|family| is_whole(family, least))
    }

    /// The mark of packets that come back with a verdict by the rules that an earlier run has left,
    /// if that is not the one of these rules. What the old rules send to the queue would come back
    /// with our marks, which the old rules do not know.
    ///
    /// # Errors
    /// iptables is missing or refuses.
    pub fn foreign_marks(&self) -> Result<Option<String>, ToolError> {
        let own = self.marks.returned_mark();
        for Family { save, .. } in FAMILIES {
            let saved = list(save)?;
            if let Some(mark) = returned_mark(&saved).filter(|mark| **mark != own) {
                return Ok(Some(mark.to_owned()));
            }
        }
        Ok(None)
    }

    /// Lists the rules that are in force.
    ///
    /// # Errors
    /// iptables is missing or refuses.
    pub fn standing() -> Result<Standing, ToolError> {
        let mut lines = Vec::new();
        for Family { save, .. } in FAMILIES {
            lines.push(standing(&list(save)?));
        }
        Ok(Standing(lines))
    }

    /// Takes the rules out. Nothing is left, also of an earlier run.
    ///
    /// # Errors
    /// iptables is missing or refuses.
    pub fn take_down() -> Result<(), ToolError> {
        for Family { save, restore, .. } in FAMILIES {
            let saved = list(save)?;
            let text = removal(&saved);
            if !text.is_empty() {
                restore.run(&RESTORE, &text)?;
            }
        }
        Ok(())
    }

    fn class_rules(&self) -> ClassRules<'_> {
        ClassRules {
            border: &self.border,
            marks: self.marks,
            classes: self.classes,
            shares: self.shares,
        }
    }

    /// The rules in the form that iptables-restore takes; `stale` are commands that remove what an
    /// earlier run left.
    fn text(&self, ip: Ip, stale: &[String], bare: Option<Program>) -> String {
        let classes = self.class_rules();
        let mut lines = vec!["*mangle".to_owned()];
        lines.extend(CHAINS.map(|chain| format!(":{chain} - [0:0]")));
        let of_classes = classes.chains();
        lines.extend(of_classes.iter().map(|chain| format!(":{chain} - [0:0]")));
        lines.extend_from_slice(stale);
        lines.extend(self.forward(bare));
        lines.extend(self.undecided());
        lines.extend(self.mark());
        lines.push(self.free());
        lines.extend(classes.lines(ip));
        let passes = if self.classes > 0 {
            // What is shaped is put into its class first.
            self.marks.whole(Offload::Allowed)
        } else {
            self.marks.passes()
        };
        lines.push(format!(
            "-A {CROSSING} -m connmark --mark {passes} -j RETURN"
        ));
        lines.extend(self.unasked());
        for crossing in self.border.crossings() {
            lines.push(format!("-A {CROSSING} {crossing} -g {FORWARD}"));
        }
        // All of it: no match on connections' marks holds for a packet that belongs to none.
        lines.push(format!("-A {HOOK} -j {CROSSING}"));
        // What comes back has met the host's rules, which come before ours, and would be asked
        // about for ever.
        let returned_mark = self.marks.returned_mark();
        lines.push(format!(
            "-I {HOOK} -m mark --mark {returned_mark} -j {MARK}"
        ));
        lines.push("COMMIT\n".to_owned());
        lines.join("\n")
    }

    /// The match of a program of the in-kernel path.
    fn program(&self, name: &str) -> Option<String> {
        let path = self.programs.as_ref()?.folder.join(name);
        Some(format!("-m bpf --object-pinned {}", path.display()))
    }

    /// Connections of which the kernel has seen enough are decided.
    fn free(&self) -> String {
        let mark = self.marks.whole(Offload::Allowed);
        format!("-A {FREE} -j CONNMARK --set-xmark {mark}")
    }

    fn forward(&self, bare: Option<Program>) -> Vec<String> {
        let undecided = self.marks.undecided();
        let mut lines = vec![
            // None of the marks below can be theirs.
            format!("-A {FORWARD} -m connmark --mark {undecided} -g {UNDECIDED}"),
            format!(
                "-A {FORWARD} -m connmark --mark {} -j DROP",
                self.marks.state(Offload::Blocked)
            ),
        ];
        if self.classes > 0 {
            let passes = self.marks.passes();
            lines.push(format!(
                "-A {FORWARD} -m connmark --mark {passes} -g {CLASS}"
            ));
            // What is watched as well comes back from there.
            lines.push(format!(
                "-A {FORWARD} -m connmark ! --mark {undecided} -j {CLASS}"
            ));
        }
        lines.push(format!(
            "-A {FORWARD} -m connmark --mark {} -m conntrack --ctdir REPLY -j RETURN",
            self.marks.whole(Offload::AnswersPass)
        ));
        // Elsewhere they are asked about: they show what a receiver has, and respond to resets
        // that did not fit.
        lines.extend(bare.map(|program| {
            let passing = self.marks.whole(Offload::AnswersPass);
            format!(
                "-A {FORWARD} -p tcp -m connmark --mark {passing} -m bpf --bytecode \"{program}\" -j RETURN"
            )
        }));
        let (fresh, followed) = self.numbers();
        let known = format!("tcp -m connmark ! --mark {undecided}");
        // What acknowledges does not wait behind files: the faster it is back, the larger are the
        // pieces that come.
        let ahead = bare.map(|program| {
            let bare = format!("{known} -m bpf --bytecode \"{program}\"");
            (bare, fresh.clone())
        });
        let queues = [
            (known, followed),
            ("tcp".to_owned(), fresh.clone()),
            ("udp".to_owned(), fresh),
        ];
        let queues = ahead.into_iter().chain(queues);
        lines.extend(queues.map(|(what, numbers)| self.queue(FORWARD, &what, &numbers)));
        lines
    }

    /// What the in-kernel path lets go of connections of which nothing is decided, before anything
    /// compares interfaces' names: its program knows their numbers. Whose contents are followed
    /// is always asked about.
    fn unasked(&self) -> Vec<String> {
        let program = |name| self.program(name).filter(|_| self.triage);
        let ways = [
            (kernel::TRIAGE, "-j RETURN".to_owned()),
            (kernel::FINISHED, format!("-g {FREE}")),
        ];
        let undecided = self.marks.undecided();
        let unasked = ways.into_iter().filter_map(|(name, way)| {
            let program = program(name)?;
            Some(format!(
                "-A {CROSSING} -m connmark --mark {undecided} {program} {way}"
            ))
        });
        unasked.collect()
    }

    /// What is done with packets of connections of which nothing is decided, and that have to be
    /// asked about.
    fn undecided(&self) -> Vec<String> {
        let refuse = self.program(kernel::REFUSE_NEW).filter(|_| self.refuses);
        let refuse = refuse
            .map(|program| format!("-A {UNDECIDED} -m conntrack --ctstate NEW {program} -j DROP"));
        let (fresh, _) = self.numbers();
        let queues = ["tcp", "udp"].map(|what| self.queue(UNDECIDED, what, &fresh));
        // Errors (ICMP) concern a flow that was allowed: without them no path's MTU is found.
        let other = self.drops_other.then(|| {
            [
                format!("-A {UNDECIDED} -m conntrack --ctstate RELATED -j RETURN"),
                format!("-A {UNDECIDED} -j DROP"),
            ]
        });
        refuse
            .into_iter()
            .chain(queues)
            .chain(other.into_iter().flatten())
            .collect()
    }

    /// The rule that puts packets of this kind into one of these queues.
    fn queue(&self, chain: &str, what: &str, numbers: &RangeInclusive<u16>) -> String {
        let (first, last) = (numbers.start(), numbers.end());
        let number = if first == last {
            format!("--queue-num {first}")
        } else {
            format!("--queue-balance {first}:{last}")
        };
        let bypass = if self.fail_open {
            " --queue-bypass"
        } else {
            ""
        };
        format!("-A {chain} -p {what} -j NFQUEUE {number}{bypass}")
    }

    /// What is done with packets that have a verdict as their mark. They do not come to a queue
    /// again.
    fn mark(&self) -> Vec<String> {
        let (mask, kept) = (Hex(self.marks.mask()), Hex(self.marks.kept()));
        let mut lines = Vec::from([
            format!("-A {MARK} -j CONNMARK --save-mark --nfmask {kept} --ctmask {kept}"),
            // By its own mark, because it may belong to no connection that could keep one.
            format!(
                "-A {MARK} -m mark --mark {} -j DROP",
                self.marks.state(Offload::Blocked)
            ),
            format!("-A {MARK} -j MARK --set-xmark 0x0/{mask}"),
        ]);
        if self.classes > 0 {
            lines.push(format!("-A {MARK} -j {CLASS}"));
        }
        lines.push(format!("-A {MARK} -j ACCEPT"));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::{Border, Ip, Marks, Programs, Rules};

    fn rules() -> Rules {
        Rules {
            border: Border {
                inside: vec!["lan0".to_owned()],
                outside: vec!["wan0".to_owned()],
                bridged: false,
            },
            marks: Marks::default(),
            queue: 7,
            queues: 1,
            fail_open: true,
            classes: 1,
            shares: false,
            programs: None,
            refuses: false,
            triage: false,
            drops_other: false,
        }
    }

    #[test]
    fn other_protocols_are_dropped_by_policy() {
        let text = Rules {
            drops_other: true,
            ..rules()
        }
        .text(Ip::V4, &[], None);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let drop = at("-A RINGWAY-ASK -j DROP\n");
        assert!(at("-A RINGWAY-ASK -p udp -j NFQUEUE") < drop);
        assert!(at("-A RINGWAY-ASK -m conntrack --ctstate RELATED -j RETURN\n") < drop);
        assert!(
            !rules()
                .text(Ip::V4, &[], None)
                .contains("-A RINGWAY-ASK -j DROP")
        );
    }

    #[test]
    fn decided_connections_never_reach_the_queue() {
        let text = rules().text(Ip::V4, &[], Some(crate::linux::pure_acks::IPV4));
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let queue = at(
            "-p tcp -m connmark ! --mark 0x0/0x7f000000 -j NFQUEUE --queue-num 8 --queue-bypass",
        );
        assert!(at("-p tcp -j NFQUEUE --queue-num 7 --queue-bypass") > queue);
        assert!(at("0x2000000/0x3000000 -j DROP") < queue);
        assert!(at("--mark 0x4000000/0x7f000000 -m bpf --bytecode \"17,") < queue);
        // What only acknowledges is asked about with new flows' packets.
        let bare = at("-p tcp -m connmark ! --mark 0x0/0x7f000000 -m bpf --bytecode \"17,");
        let rest = text.get(bare..).unwrap_or_default();
        assert!(bare < queue && rest.contains("\" -j NFQUEUE --queue-num 7 --queue-bypass\n"));
        assert!(at("--mark 0x4000000/0x7f000000 -m conntrack --ctdir REPLY -j RETURN") < queue);
        // What comes back is seen before anything could ask about it again.
        let saved =
            at("-A RINGWAY-MARK -j CONNMARK --save-mark --nfmask 0x7f000000 --ctmask 0x7f000000");
        let dropped = at("-A RINGWAY-MARK -m mark --mark 0x2000000/0x3000000 -j DROP");
        let cleared = at("-A RINGWAY-MARK -j MARK --set-xmark 0x0/0x7f800000");
        assert!(
            saved < dropped
                && dropped < cleared
                && cleared < at("-A RINGWAY-MARK -j RINGWAY-CLASS")
        );
        // Who is watched in a class is put into it before it is asked about, and who is in one for
        // good is not asked about.
        let watched = at("-A RINGWAY -m connmark ! --mark 0x0/0x7f000000 -j RINGWAY-CLASS");
        let shaped = at("-A RINGWAY -m connmark --mark 0x1000000/0x1000000 -g RINGWAY-CLASS");
        assert!(shaped < watched && watched < queue);
        for mark in ["0x3000000", "0xc000000"] {
            let classified = format!("--mark {mark}/0x7f000000 -j CLASSIFY --set-class 7a11:10");
            assert!(text.contains(&classified), "{text}");
        }
    }

    #[test]
    fn ruled_out_packets_bypass_the_queue() {
        let with = |refuses, triage| {
            let rules = Rules {
                programs: Some(Programs {
                    folder: "/sys/fs/bpf/ringway-7".into(),
                    needed: true,
                }),
                refuses,
                triage,
                ..rules()
            };
            rules.text(Ip::V4, &[], None)
        };
        let text = with(true, true);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let triage = at(
            "-A RINGWAY-CROSSING -m connmark --mark 0x0/0x7f000000 -m bpf --object-pinned /sys/fs/bpf/ringway-7/triage -j RETURN\n",
        );
        let refuse = at(
            "-A RINGWAY-ASK -m conntrack --ctstate NEW -m bpf --object-pinned /sys/fs/bpf/ringway-7/refuse_new -j DROP\n",
        );
        // What passes unasked meets no rule that compares interfaces' names.
        assert!(triage < at("-A RINGWAY-CROSSING -i lan0 -o wan0 -g RINGWAY\n"));
        assert!(refuse < at("-A RINGWAY-ASK -p tcp -j NFQUEUE"));
        assert!(refuse < at("-A RINGWAY-ASK -p udp -j NFQUEUE"));
        let asked = at("-A RINGWAY -m connmark --mark 0x0/0x7f000000 -g RINGWAY-ASK\n");
        assert!(asked < at("0x2000000/0x3000000 -j DROP"));
        let finished = at(
            "-A RINGWAY-CROSSING -m connmark --mark 0x0/0x7f000000 -m bpf --object-pinned /sys/fs/bpf/ringway-7/finished -g RINGWAY-FREE\n",
        );
        assert!(triage < finished);
        // Each goes without the other.
        let (cache, passing) = (with(true, false), with(false, true));
        assert!(cache.contains("/refuse_new ") && !cache.contains("/triage "));
        assert!(passing.contains("/triage ") && !passing.contains("/refuse_new "));
    }

    #[test]
    fn allowed_connections_are_known_by_mark_alone() {
        let text = |classes| Rules { classes, ..rules() }.text(Ip::V4, &[], None);
        let crossing = "-A RINGWAY-CROSSING -i lan0 -o wan0 -g RINGWAY\n";
        // What is allowed and what is shaped have this bit; what is shaped has to be put into its
        // class.
        for (classes, mark) in [(0, "0x1000000/0x1000000"), (1, "0x1000000/0x7f000000")] {
            let text = text(classes);
            let passes = format!("-A RINGWAY-CROSSING -m connmark --mark {mark} -j RETURN\n");
            assert!(text.find(&passes).unwrap() < text.find(crossing).unwrap());
            // The jumps from the host's chains hold for packets of any interfaces.
            let host = text.lines().filter(|line| {
                let chain = line
                    .starts_with('-')
                    .then(|| line.split(' ').nth(1))
                    .flatten();
                chain.is_some_and(|chain| !chain.starts_with("RINGWAY"))
            });
            // The host's own rules stand between the two: each packet meets them once, before
            // anybody is asked.
            let returned_mark = "-I FORWARD -m mark --mark 0x800000/0x800000 -j RINGWAY-MARK";
            assert_eq!(
                host.collect::<Vec<_>>(),
                ["-A FORWARD -j RINGWAY-CROSSING", returned_mark]
            );
        }
        assert!(!text(0).contains("-j RINGWAY-CLASS") && !text(0).contains("-g RINGWAY-CLASS"));
    }

    #[test]
    fn queues_share_flows_and_fail_closed_without_bypass() {
        let text = Rules {
            queues: 4,
            fail_open: false,
            ..rules()
        }
        .text(Ip::V4, &[], None);
        for queues in [
            "-p udp -j NFQUEUE --queue-balance 7:10\n",
            "0x0/0x7f000000 -j NFQUEUE --queue-balance 11:14\n",
        ] {
            assert!(text.contains(queues), "{text}");
        }
        assert!(!text.contains("bypass") && !text.contains("bpf"));
    }
}
