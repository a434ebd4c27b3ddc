//! What a packet costs on either path, beside NAT; and of the in-kernel path each program, by the
//! kernel's own count, and the memory of its maps.
//!
//! Clients and servers are threads of this process, and what the kernel does with their packets is
//! counted as theirs: the difference to NAT is the gateway's. `stages` tells where in user space
//! its part goes.

use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aya::maps::MapInfo;
use aya::programs::ProgramInfo;
use ringway_gateway::linux::kernel::BPFFS;
use ringway_gateway::linux::kernel::ingress::LINK;

use super::border::{Border, Running};
use super::ladder::{NAT, along, words};
use super::load::{Kind, Load};
use super::pages::{self, CALLERS};
use super::policies::CLASSIFY;
use super::spent;
use super::storm::count;
use crate::cli::{GateBenchArgs, PathChoice};
use crate::figure::Figure;
use ringway_terminal::Failure;
use ringway_terminal::Output;

/// The programs that packets run through, by the names of their files.
const PROGRAMS: [&str; 4] = ["refuse", "refuse_new", "triage", "finished"];
/// The one for drivers, which runs in none here. Everything else in the folder is a map.
const EARLY: &str = "refuse_early";
/// Whether the kernel counts what programs take.
const COUNTS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// In any process's name, also of what else runs on the machine.
const SOFTIRQS: &str = "softirq_time_of_the_machine";

/// What crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crossing {
    Pages,
    Files,
}

const CROSSINGS: [Crossing; 2] = [Crossing::Pages, Crossing::Files];

impl Crossing {
    fn name(self) -> String {
        match self {
            Self::Pages => format!("{CALLERS} callers of pages of 1 kB"),
            Self::Files => Kind::Files(100).name(),
        }
    }

    fn run(self, border: &Border, load: &Load, time: Duration) -> Result<(), Failure> {
        match self {
            Self::Pages => pages::call(border, CALLERS, time).map(|_| ()),
            Self::Files => load.measure(border, Kind::Files(100), time).map(|_| ()),
        }
    }
}

/// Figures by case, metric and unit, from all rounds.
#[derive(Debug, Default)]
struct Values(Vec<(String, &'static str, &'static str, Vec<f64>)>);

impl Values {
    fn note(&mut self, case: String, metric: &'static str, unit: &'static str, value: f64) {
        let same =
            |known: &&mut (String, &str, &str, Vec<f64>)| known.0 == case && known.1 == metric;
        match self.0.iter_mut().find(same) {
            Some((.., values)) => values.push(value),
            None => self.0.push((case, metric, unit, vec![value])),
        }
    }

    /// In the order in which they were noted first, those of a gateway beside NAT's.
    fn figures(self) -> Vec<Figure> {
        let of_nat = |case: &str, metric: &str| -> Vec<f64> {
            let crossing = CROSSINGS.map(Crossing::name).into_iter();
            let nat = crossing.filter(|name| case.ends_with(name.as_str()));
            let nat: Vec<String> = nat.map(|name| format!("{NAT}, {name}")).collect();
            let same = self
                .0
                .iter()
                .find(|known| nat.contains(&known.0) && known.1 == metric);
            same.map(|known| known.3.clone()).unwrap_or_default()
        };
        let figures = self.0.iter().map(|(case, metric, unit, values)| {
            let nat = of_nat(case, metric);
            Figure::new("gate", case.clone(), metric, unit, values).against(NAT, &nat)
        });
        figures.collect()
    }
}

/// Measures NAT and all paths, in turns.
pub(super) fn measure(
    output: Output,
    args: &GateBenchArgs,
    (border, load): (&Border, &Load),
    (rounds, time): (usize, Duration),
) -> Result<Vec<Figure>, Failure> {
    let mut values = Values::default();
    let gateway = |path: PathChoice| -> Result<Running, Failure> {
        let words = [words(args, None), along(path, "").1].concat();
        border.gateway(CLASSIFY, &words)
    };
    for round in 0..rounds {
        let note = |what: &str| {
            output.note(&format!(
                "round {} of {rounds}, time of a packet, {what}",
                round + 1
            ));
        };
        for crossing in CROSSINGS {
            note(&format!("{}, {NAT}", crossing.name()));
            let running = border.translate()?;
            packets(&mut values, (border, load, &running), (NAT, crossing), time)?;
            running.end()?;
            for &path in &args.path {
                let (name, _) = along(path, "classification, nothing managed");
                note(&format!("{}, {name}", crossing.name()));
                let running = gateway(path)?;
                packets(
                    &mut values,
                    (border, load, &running),
                    (&name, crossing),
                    time,
                )?;
                running.end()?;
                if path == PathChoice::Kernel {
                    // To count costs something itself, so those packets are others.
                    let running = gateway(path)?;
                    programs(&mut values, (border, load, &running), crossing, time)?;
                    running.end()?;
                }
            }
        }
        if round == 0 && args.path.contains(&PathChoice::Kernel) {
            let running = gateway(PathChoice::Kernel)?;
            memory(&mut values, &running)?;
            running.end()?;
        }
    }
    Ok(values.figures())
}

/// Processor time of a packet at the border, clients and servers included.
fn packets(
    values: &mut Values,
    (border, load, running): (&Border, &Load, &Running),
    (name, crossing): (&str, Crossing),
    time: Duration,
) -> Result<(), Failure> {
    let look = || -> Result<[f64; 4], Failure> {
        let [gateway, _] = running.processor_time()?;
        let all = spent::here()
            .saturating_add(gateway)
            .saturating_add(spent::softirq_threads()?);
        let [bytes, packets] = spent::crossed(border)?;
        Ok([
            all.as_secs_f64(),
            spent::softirqs()?.as_secs_f64(),
            // In kB: more of them can be counted.
            count(bytes / 1_000),
            count(packets),
        ])
    };
    let before = look()?;
    crossing.run(border, load, time)?;
    let after = look()?;
    let [all, softirqs, kilobytes, packets] = [0, 1, 2, 3].map(|at: usize| {
        let (before, after) = (before.get(at), after.get(at));
        after.copied().unwrap_or(0.0) - before.copied().unwrap_or(0.0)
    });
    let case = format!("{name}, {}", crossing.name());
    let packets = packets.max(1.0) / 1e6;
    let mut note = |metric, unit, value| values.note(case.clone(), metric, unit, value);
    note("processor_time", "µs/packet", all / packets);
    note(SOFTIRQS, "µs/packet", softirqs / packets);
    // Files' packets are joined as it comes, so that one is not like another.
    note(
        "processor_time_of_all",
        "s/GB",
        all * 1e6 / kilobytes.max(1.0),
    );
    Ok(())
}

/// What each program takes, by the kernel's count.
fn programs(
    values: &mut Values,
    (border, load, running): (&Border, &Load, &Running),
    crossing: Crossing,
    time: Duration,
) -> Result<(), Failure> {
    let counting = Counting::begin()?;
    let folder = folder(running)?;
    let look = || -> Result<Vec<[f64; 2]>, Failure> {
        let reported = PROGRAMS.iter().map(|program| {
            let info = ProgramInfo::from_pin(folder.join(program)).map_err(Failure::failed)?;
            let about = about(info.fd().map_err(Failure::failed)?)?;
            Ok([number(&about, "run_time_ns"), number(&about, "run_cnt")])
        });
        reported.collect()
    };
    let (before, came) = (look()?, spent::crossed(border)?);
    crossing.run(border, load, time)?;
    let (after, come) = (look()?, spent::crossed(border)?);
    drop(counting);
    let ([_, came], [_, come]) = (came, come);
    let packets = count(come.saturating_sub(came)).max(1.0);
    for ((program, [time, runs]), [time_before, runs_before]) in
        PROGRAMS.iter().zip(after).zip(before)
    {
        let (time, runs) = (time - time_before, runs - runs_before);
        let case = format!("program `{program}`, {}", crossing.name());
        values.note(case.clone(), "time", "ns/run", time / runs.max(1.0));
        values.note(case, "runs", "1/packet", runs / packets);
    }
    Ok(())
}

/// What the maps take, and the programs.
fn memory(values: &mut Values, running: &Running) -> Result<(), Failure> {
    let (folder, mut all) = (folder(running)?, 0.0);
    let entries = std::fs::read_dir(&folder).map_err(Failure::failed)?;
    let names =
        entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_, _>>().map_err(Failure::failed)?;
    names.sort();
    for name in names {
        if name.starts_with(LINK) {
            // The place of a program at an interface.
            continue;
        }
        let path = folder.join(&name);
        let program = name == EARLY || PROGRAMS.contains(&name.as_str());
        let about = if program {
            let info = ProgramInfo::from_pin(&path).map_err(Failure::failed)?;
            about(info.fd().map_err(Failure::failed)?)?
        } else {
            let info = MapInfo::from_pin(&path).map_err(Failure::failed)?;
            about(info.fd().map_err(Failure::failed)?)?
        };
        let kilobytes = number(&about, "memlock") / 1e3;
        all += kilobytes;
        let what = if program { "program" } else { "map" };
        values.note(format!("{what} `{name}`"), "memory", "kB", kilobytes);
    }
    values.note("maps and programs together".to_owned(), "memory", "kB", all);
    Ok(())
}

/// Where the gateway has put its programs and maps, as it sees it itself.
fn folder(running: &Running) -> Result<PathBuf, Failure> {
    let process = running
        .process()
        .ok_or_else(|| Failure::failed("no gateway runs"))?;
    let process = Path::new("/proc").join(process.to_string());
    let namespace = std::fs::metadata(process.join("ns/net")).map_err(Failure::failed)?;
    let inside = Path::new(BPFFS)
        .strip_prefix("/")
        .map_err(Failure::failed)?;
    // One for each build; those of others are gone.
    let own = format!("ringway-{}-", namespace.ino());
    let all = process.join("root").join(inside);
    let mut entries = std::fs::read_dir(&all).map_err(Failure::failed)?.flatten();
    entries
        .find(|entry| entry.file_name().to_string_lossy().starts_with(&own))
        .map(|entry| entry.path())
        .ok_or_else(|| Failure::failed(format_args!("no {own} in {}", all.display())))
}

/// What the kernel says of something that is open here.
fn about(open: impl AsFd) -> Result<String, Failure> {
    let number = open.as_fd().as_raw_fd();
    std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).map_err(Failure::failed)
}

/// The value of a line `NAME: VALUE`; 0 where there is none.
fn number(about: &str, name: &str) -> f64 {
    let value = about.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        (known == name).then(|| value.trim().parse().ok())?
    });
    value.unwrap_or(0.0)
}

/// The kernel counts as long as there is this.
#[derive(Debug)]
struct Counting(String);

impl Counting {
    fn begin() -> Result<Self, Failure> {
        let before = std::fs::read_to_string(COUNTS).map_err(Failure::failed)?;
        std::fs::write(COUNTS, "1").map_err(Failure::failed)?;
        Ok(Self(before))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // It goes on counting otherwise, which costs a little and does no harm.
        std::fs::write(COUNTS, self.0.trim()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_by_name() {
        let about = "pos:\t0\nmemlock:\t4096\nrun_time_ns:\t900\nrun_cnt:\t3\n";
        assert_eq!(number(about, "memlock"), 4096.0);
        assert_eq!(
            number(about, "run_time_ns") / number(about, "run_cnt"),
            300.0
        );
        assert_eq!(number(about, "time_ns"), 0.0, "not by a part of it");
    }

    #[test]
    fn gateway_is_compared_with_nat_at_same_load() {
        let mut values = Values::default();
        for (crossing, nat) in CROSSINGS.into_iter().zip([2.0, 10.0]) {
            values.note(format!("{NAT}, {}", crossing.name()), "m", "u", nat);
            values.note(format!("gateway, {}", crossing.name()), "m", "u", 30.0);
        }
        values.note("map `flows`".to_owned(), "m", "u", 1.0);
        let ratios: Vec<_> = values.figures().iter().map(|figure| figure.ratio).collect();
        assert_eq!(ratios, [Some(1.0), Some(15.0), Some(1.0), Some(3.0), None]);
    }
}
