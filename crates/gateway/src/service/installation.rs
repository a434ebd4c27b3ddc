//! What the gateway puts into the system, and takes out again: rules, classes, programs of the
//! kernel, redirections.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::SignatureSet;
use crate::linux::border::Border;
use crate::linux::kernel::Kernel;
use crate::linux::kernel::features::unverified;
use crate::linux::kernel::parts::{MissingPart, Part, Wanted};
use crate::linux::marks::Marks;
use crate::linux::rules::{Programs, Rules, SetUp, Standing};
use crate::linux::shaper::{self, Leaf, Shaper, Side};
use crate::linux::terminate::redirect::{self, Redirect};
use crate::linux::terminate::{Doors, Terminator};
use crate::policy::{Failure, Policy, apart};
use crate::verdict::Mode;

use super::builder::BorderConfig;
use super::controller::System;
use super::error::ServiceError;
use super::in_kernel::InKernel;

/// What the gateway puts into the system.
#[derive(Clone, Debug)]
pub(super) struct Installation {
    pub(super) rules: Rules,
    /// An in-kernel path is wanted, and may be there.
    wants_kernel: bool,
    /// Where the bpf file system is.
    pub(super) bpffs: PathBuf,
    /// What puts policies into the in-kernel path, where there is one.
    in_kernel: Option<InKernel>,
    /// What puts classes in force.
    shaper: Shaper,
    /// Where connections are taken that end here.
    doors: Option<Doors>,
    /// Ports at which any may have ended since the start.
    ended: Arc<Mutex<Vec<RangeInclusive<u16>>>>,
    /// The rules that were put in.
    laid: Arc<Mutex<Option<Laid>>>,
    /// Why the packet filter asks no programs.
    unasked: Arc<Mutex<Option<String>>>,
}

/// Rules that were put in.
#[derive(Debug)]
struct Laid {
    rules: Rules,
    /// How they were listed then; `None`: they were not whole, because others were changing them.
    standing: Option<Standing>,
    /// How the redirection was listed that belongs to them; `None`: it is still to be put in.
    redirection: Option<String>,
}

impl Laid {
    fn new(rules: Rules) -> Laid {
        let mut laid = Laid {
            rules,
            standing: None,
            redirection: None,
        };
        laid.look();
        laid
    }

    /// Lists them.
    fn look(&mut self) {
        let standing = Rules::standing().ok();
        self.standing = standing.filter(|standing| self.rules.are_whole(standing));
    }
}

/// Says what the packet filter did not take.
fn warn(set_up: &SetUp) {
    if !set_up.acks_bypassed {
        tracing::warn!(
            "the packet filter has no match `bpf` (xt_bpf): what only acknowledges a file is queued too, which costs throughput"
        );
    }
    if let Some(why) = &set_up.unasked {
        tracing::warn!(
            %why,
            "the packet filter takes no programs: it asks about every undecided packet, and refuses no new connection by itself"
        );
    }
}

fn is_there(interface: &str) -> bool {
    PathBuf::from("/sys/class/net").join(interface).exists()
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Installation {
    pub(super) fn new(config: BorderConfig, policy: &Policy) -> Result<Self, ServiceError> {
        let border = Border {
            inside: config.inside,
            outside: config.outside,
            bridged: config.bridged,
        };
        border.check().map_err(ServiceError::usage)?;
        // Each has a second one, for connections that are followed (`queue_pair`).
        let pairs = config.queues.saturating_mul(2);
        if config.queue.checked_add(pairs.saturating_sub(1)).is_none() {
            return Err(ServiceError::usage(format_args!(
                "there are no {pairs} queues from {} on (--queue, --queues): the last one is {}",
                config.queue,
                u16::MAX
            )));
        }
        for name in border.all() {
            if !is_there(name) && !config.late {
                return Err(ServiceError::usage(format_args!(
                    "there is no interface `{name}` (--late-interfaces: begin without it, it may come later)"
                )));
            }
        }
        Ok(Installation {
            wants_kernel: config.in_kernel,
            bpffs: config.bpffs,
            in_kernel: None,
            shaper: Shaper::default(),
            doors: None,
            ended: Arc::default(),
            laid: Arc::default(),
            unasked: Arc::default(),
            rules: Rules {
                border,
                marks: Marks::within(config.mask).map_err(ServiceError::usage)?,
                queue: config.queue,
                queues: config.queues,
                fail_open: policy.failure() == Failure::Open,
                classes: 0,
                shares: false,
                programs: None,
                refuses: false,
                triage: false,
                drops_other: false,
            },
        })
    }

    /// Refuses to begin behind the rules of a run with other marks: packets would go round between
    /// those and the queue.
    pub(super) fn check_earlier_run(&self) -> Result<(), ServiceError> {
        match self.rules.foreign_marks() {
            Ok(None) => Ok(()),
            Ok(Some(mark)) => Err(ServiceError::usage(format_args!(
                "an earlier run with another --mask has left its rules (they mark packets with {mark}): `ringway gate down` takes them out"
            ))),
            // Told when the rules are put in.
            Err(_) => Ok(()),
        }
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = (u16, u16)> {
        let (new, followed) = self.rules.numbers();
        new.zip(followed)
    }

    /// Has rules name the programs of the in-kernel path, which receives policies from then on.
    pub(super) fn use_kernel(&mut self, kernel: &mut Kernel, set: &SignatureSet, packets: u8) {
        self.rules.programs = Some(Programs {
            folder: kernel.folder().to_owned(),
            needed: kernel.wanted() == Wanted::All,
        });
        self.rules.refuses = kernel.has(Part::CacheInFilter);
        self.in_kernel = InKernel::new(kernel, set, packets);
    }

    /// The parts of the in-kernel path that there are not, now that the rules are laid.
    pub(super) fn without(&self, kernel: &Kernel) -> Vec<MissingPart> {
        let mut without = kernel.without().to_vec();
        let mut lacks = |part, why: &str| {
            if without.iter().all(|known| known.part != part) {
                let why = why.to_owned();
                without.push(MissingPart { part, why });
            }
        };
        if let Some(why) = &*held(&self.unasked) {
            lacks(Part::CacheInFilter, why);
            lacks(Part::Passing, why);
        }
        if let Some(why) = unverified().filter(|_| self.in_kernel.is_none()) {
            lacks(Part::Passing, &why);
        }
        without
    }

    /// Binds the sockets at which connections end. A bridge has none: it need not have an address.
    pub(super) fn bind_tproxy(
        &mut self,
        policy: &Policy,
    ) -> Result<Option<Terminator>, ServiceError> {
        if self.rules.border.bridged {
            return self.redirect(policy, Mode::Enforce).map(|()| None);
        }
        match Terminator::open(self.shaper.clone()) {
            Ok(terminator) => {
                self.doors = Some(terminator.doors());
                Ok(Some(terminator))
            }
            Err(error) if policy.terminated().is_empty() => {
                tracing::debug!(%error, "no connection can end here");
                Ok(None)
            }
            Err(error) => Err(ServiceError::failed(format_args!(
                "connections cannot end here (`terminate`): {error}"
            ))),
        }
    }

    /// Brings connections here that the policy wants to end here; those that are under way go on.
    fn redirect(&self, policy: &Policy, mode: Mode) -> Result<(), ServiceError> {
        let wanted = match mode {
            Mode::Enforce => policy.terminated(),
            // Observing interferes with no connection.
            Mode::Observe => &[],
        };
        let mut ended = held(&self.ended);
        let ever = apart(&[ended.as_slice(), wanted].concat());
        if ever.is_empty() {
            // An earlier run may have left it.
            return redirect::take_down().map_err(ServiceError::failed);
        }
        let Some(doors) = self.doors else {
            return Err(ServiceError::usage(
                "the policy lets connections end here (`terminate`), which takes a machine that routes (no --bridged)",
            ));
        };
        let redirect = Redirect {
            border: &self.rules.border,
            marks: self.rules.marks,
            doors,
            ports: wanted,
            ever: &ever,
        };
        if let Some(why) = redirect.set_up().map_err(ServiceError::failed)? {
            tracing::warn!(%why, "connections over IPv6 do not end here");
        }
        *ended = ever;
        Ok(())
    }

    /// Puts the rules and the redirection back where others have changed them; returns whether
    /// they had.
    fn rules_back(&self, policy: &Policy, mode: Mode) -> Result<bool, ServiceError> {
        let mut laid = held(&self.laid);
        let Some(laid) = &mut *laid else {
            return Ok(false);
        };
        let standing = Some(Rules::standing().map_err(ServiceError::failed)?);
        let rules = laid.standing != standing;
        // Only what was changed: to lay the redirection again costs whatever waits in the queues.
        let redirection = laid.redirection.as_ref() != Some(&self.redirection());
        if rules {
            warn(&laid.rules.set_up().map_err(ServiceError::failed)?);
            if laid.standing.is_none() {
                laid.look();
            }
        }
        if redirection {
            laid.redirection = None;
            self.redirect(policy, mode)?;
            laid.redirection = Some(self.redirection());
        }
        Ok(rules || redirection)
    }

    /// Puts classes back at interfaces that have none: they go with an interface. Where there are
    /// some they stay: to make them again would cost them what waits in them.
    fn classes_back(&self, policy: &Policy, mode: Mode) -> Result<bool, ServiceError> {
        if mode != Mode::Enforce || policy.classes().is_empty() {
            return Ok(false);
        }
        let back = |(interface, side): (&str, Side)| -> Result<bool, ServiceError> {
            let lacks = shaper::stands(interface).map_err(ServiceError::failed)? == Some(false);
            if lacks {
                self.shape(interface, side, policy)?;
            }
            Ok(lacks)
        };
        // One that cannot have them leaves the others theirs.
        let looked: Vec<_> = self.sides().map(back).collect();
        looked
            .into_iter()
            .try_fold(false, |any, looked| Ok(any | looked?))
    }

    /// The interfaces of the border, each with its side.
    fn sides(&self) -> impl Iterator<Item = (&str, Side)> {
        let border = &self.rules.border;
        let inside = border.inside.iter().map(|name| (name, Side::Inside));
        let outside = border.outside.iter().map(|name| (name, Side::Outside));
        inside
            .chain(outside)
            .map(|(name, side)| (name.as_str(), side))
    }

    /// Puts the classes in force at an interface.
    fn shape(&self, interface: &str, side: Side, policy: &Policy) -> Result<(), ServiceError> {
        let classes = policy.classes();
        let shaped = self.shaper.set_up(interface, side, classes);
        shaped.map_err(ServiceError::failed)
    }

    /// The rules name interfaces: through one that is called otherwise now everything passes.
    fn interfaces(&self) -> Result<(), ServiceError> {
        let gone = self.rules.border.all().find(|name| !is_there(name));
        match gone {
            None => Ok(()),
            Some(name) => Err(ServiceError::failed(format_args!(
                "there is no interface `{name}`: what crosses the border there is not looked at until there is one of this name (give the interface its name back, or start the gateway with its new one)"
            ))),
        }
    }

    /// The interfaces that are not there yet: the rules hold for them once they are.
    pub(super) fn missing(&self) -> Vec<String> {
        let names = self.rules.border.all().filter(|name| !is_there(name));
        names.map(str::to_owned).collect()
    }

    /// How the redirection is listed, if there was any since the start.
    fn redirection(&self) -> String {
        if held(&self.ended).is_empty() {
            String::new()
        } else {
            redirect::standing()
        }
    }

    /// The gateway ends: what it put in stays or goes.
    pub(super) fn end(&self, stays: bool) -> Result<(), ServiceError> {
        if stays { Ok(()) } else { self.take_down() }
    }

    /// Puts in what the policy needs.
    pub(super) fn put_in(&self, policy: &Policy, mode: Mode) -> Result<(), ServiceError> {
        System::set_up(self, policy, mode)
    }

    /// Takes out all of it: one part that cannot be taken out leaves no other behind.
    pub(super) fn take_down(&self) -> Result<(), ServiceError> {
        let border = &self.rules.border;
        let mut taken = vec![
            redirect::take_down().map_err(ServiceError::failed),
            Rules::take_down().map_err(ServiceError::failed),
        ];
        let shaped = border.all().map(shaper::take_down);
        taken.extend(shaped.map(|taken| taken.map_err(ServiceError::failed)));
        if self.wants_kernel {
            taken.push(Kernel::detach(border, &self.bpffs).map_err(ServiceError::failed));
        }
        taken.into_iter().collect()
    }
}

impl System for Installation {
    fn set_up(&self, policy: &Policy, mode: Mode) -> Result<(), ServiceError> {
        let shaping = mode == Mode::Enforce && !policy.classes().is_empty();
        // One that comes later gets its classes as one that has come back (`classes_back`).
        let there = self.sides().filter(|(interface, _)| is_there(interface));
        for (interface, side) in there {
            if shaping {
                self.shape(interface, side, policy)?;
            } else {
                shaper::take_down(interface).map_err(ServiceError::failed)?;
            }
        }
        // The table before the rules: once these ask the programs, this policy decides.
        let triage = match &self.in_kernel {
            Some(in_kernel) => in_kernel.put(policy)?,
            None => false,
        };
        let rules = Rules {
            triage,
            drops_other: mode == Mode::Enforce && policy.blocks_other(),
            fail_open: policy.failure() == Failure::Open,
            classes: if shaping { policy.classes().len() } else { 0 },
            shares: self.shaper.leaf() == Some(Leaf::Shares),
            ..self.rules.clone()
        };
        let set_up = rules.set_up().map_err(ServiceError::failed)?;
        warn(&set_up);
        *held(&self.unasked) = set_up.unasked;
        *held(&self.laid) = Some(Laid::new(rules));
        self.redirect(policy, mode)?;
        let redirection = self.redirection();
        if let Some(laid) = &mut *held(&self.laid) {
            laid.redirection = Some(redirection);
        }
        Ok(())
    }

    fn put_back(&self, policy: &Policy, mode: Mode) -> Result<bool, ServiceError> {
        // Where one of them cannot be, the others are looked after all the same.
        let rules = self.rules_back(policy, mode);
        let classes = self.classes_back(policy, mode);
        self.interfaces()?;
        Ok(rules? | classes?)
    }
}
