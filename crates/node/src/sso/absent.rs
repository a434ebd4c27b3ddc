//! In the issuer's place, in a build without the feature `sso`.

use std::time::Duration;

use super::person::Person;
use super::refused::Refused;
use super::settings::{Settings, SettingsError};

/// There is none.
#[derive(Debug)]
pub(crate) enum Issuer {}

/// What an issuer would have begun.
#[derive(Debug)]
pub(crate) enum Begun {}

/// What the person would be shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) url: String,
    pub(crate) complete: Option<String>,
    pub(crate) code: String,
    pub(crate) time: Duration,
}

impl Issuer {
    pub(crate) fn new(_: Settings) -> Result<Issuer, SettingsError> {
        Err(SettingsError::NotBuilt)
    }

    pub(crate) fn settings(&self) -> &Settings {
        match *self {}
    }

    pub(crate) async fn check(&self) -> Result<(), Refused> {
        match *self {}
    }

    pub(crate) async fn begin(&self, _: String) -> Result<(Shown, Begun), Refused> {
        match *self {}
    }

    pub(crate) async fn wait(&self, begun: Begun) -> Result<Person, Refused> {
        match begun {}
    }
}
