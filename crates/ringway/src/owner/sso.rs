//! Enrolment by single sign-on: `ringway ring link`, and what `ringway ring serve` makes of its
//! options.

use std::path::{Path, PathBuf};

use ringway_node::authority::ServerHandle;
use ringway_node::sso::{Settings, SettingsError};
use serde::Serialize;

use super::open;
use crate::cli::{self, LinkArgs, SsoArgs};
use crate::context::Context;
use ringway_terminal::Failure;

/// The credential of systemd that has the client's secret.
const CREDENTIAL: &str = "oidc-secret";

#[derive(Serialize)]
struct LinkObject {
    link: String,
    domain: String,
    ring: String,
    enrol: String,
}

/// Prints the ring's join link.
pub(super) fn link(context: &Context, args: LinkArgs) -> Result<(), Failure> {
    let link = open(context, args.folder.dir)?.join_link();
    let object = LinkObject {
        link: link.to_string(),
        domain: link.domain,
        ring: link.ring.to_string(),
        enrol: link.enrol.to_string(),
    };
    context
        .output
        .either("ringway.join-link/1", &object, || object.link.clone())?;
    context.output.note(
        "No secret, but it has to reach people unchanged: they join by `ringway join LINK`, while `ringway ring serve --oidc ISSUER --group GROUP` runs.",
    );
    Ok(())
}

/// The settings that the options make; none without an issuer.
pub(super) fn settings(args: &SsoArgs) -> Result<Option<Settings>, Failure> {
    let Some(issuer) = &args.oidc else {
        return match stray(args) {
            Some(option) => Err(Failure::usage(format_args!(
                "--{option} is for enrolment by single sign-on: give the issuer with --oidc, too"
            ))),
            None => Ok(None),
        };
    };
    let mut settings = Settings::new(issuer, args.group.clone());
    let text = |given: &Option<String>, to: &mut String| {
        if let Some(given) = given {
            to.clone_from(given);
        }
    };
    text(&args.oidc_client, &mut settings.client);
    text(&args.group_claim, &mut settings.group_claim);
    text(&args.name_claim, &mut settings.name_claim);
    if let Some(names) = &args.sso_names {
        settings.names = names.clone();
    }
    if let Some(machines) = args.sso_machines {
        settings.machines = machines;
    }
    // Where nothing is said, the settings' own defaults stay.
    settings.again = args.sso_again;
    settings.routers = args.sso_routers;
    settings.ca.clone_from(&args.oidc_ca);
    settings.proxy.clone_from(&args.oidc_proxy);
    settings.check().map_err(Failure::usage)?;
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    settings.secret =
        secret(args.oidc_secret.as_deref(), credentials.as_deref()).map_err(Failure::usage)?;
    Ok(Some(settings))
}

/// The client's secret, of the file that is named, or of systemd's credential if there is one.
fn secret(
    file: Option<&Path>,
    credentials: Option<&Path>,
) -> Result<Option<ringway_node::sso::Secret>, SettingsError> {
    let kept = credentials.map(|folder| folder.join(CREDENTIAL));
    let kept = kept.filter(|path| path.exists());
    let file = file.map(Path::to_owned).or(kept);
    file.map(|file| Settings::read_secret(&file, credentials))
        .transpose()
}

/// An option that does nothing without an issuer.
fn stray(args: &SsoArgs) -> Option<&'static str> {
    let given = [
        ("group", !args.group.is_empty()),
        ("oidc-client", args.oidc_client.is_some()),
        ("oidc-secret", args.oidc_secret.is_some()),
        ("group-claim", args.group_claim.is_some()),
        ("name-claim", args.name_claim.is_some()),
        ("sso-names", args.sso_names.is_some()),
        ("sso-machines", args.sso_machines.is_some()),
        ("sso-again", args.sso_again.is_some()),
        ("sso-routers", args.sso_routers),
        ("oidc-ca", args.oidc_ca.is_some()),
        ("oidc-proxy", args.oidc_proxy.is_some()),
    ];
    given.into_iter().find(|given| given.1).map(|given| given.0)
}

/// Has the running authority take these, and looks whether the issuer answers: if it does not, the
/// log says why, and people cannot sign in until it does.
pub(super) fn apply(server: &ServerHandle, settings: Option<Settings>) -> Result<(), Failure> {
    let issuer = settings.as_ref().map(|settings| settings.issuer.clone());
    server.set_sign_in(settings).map_err(Failure::usage)?;
    let Some(issuer) = issuer else { return Ok(()) };
    let server = server.clone();
    tokio::spawn(async move {
        match server.check_sign_in().await {
            Ok(()) => tracing::info!(issuer, "people can join by signing in"),
            Err(refused) => tracing::warn!("people cannot join by signing in: {refused}"),
        }
    });
    Ok(())
}

/// Takes the options as they are in the file now. What is wrong changes nothing: gives why.
pub(super) fn reload(server: &ServerHandle) -> Result<(), String> {
    let args = cli::serve_options().map_err(|error| error.to_string())?;
    let settings = settings(&args.sso).map_err(|failure| failure.message().to_owned())?;
    apply(server, settings).map_err(|failure| failure.message().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, RingCommand};

    fn args(words: &str) -> SsoArgs {
        let words = format!("ringway ring serve {words}");
        let cli = Cli::try_parse_from(words.split_whitespace()).unwrap();
        match cli.command {
            Command::Ring(RingCommand::Serve(args)) => args.sso,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_without_issuer_are_refused() {
        assert!(settings(&args("")).unwrap().is_none());
        for words in ["--group staff", "--sso-again 30d", "--sso-routers"] {
            let refused = settings(&args(words)).unwrap_err();
            assert!(
                refused.message().contains("--oidc"),
                "{}",
                refused.message()
            );
        }
    }

    #[test]
    fn issuer_without_group_is_refused() {
        let refused = settings(&args("--oidc https://sso.example.org")).unwrap_err();
        assert!(refused.message().contains("--group"));
    }

    #[test]
    fn options_become_settings() {
        let words = "--oidc https://sso.example.org --group a --group b --group-claim roles \
            --sso-names {machine} --sso-machines 2 --sso-again 30d --sso-routers";
        let made = settings(&args(words)).unwrap().unwrap();
        assert_eq!(made.groups, ["a", "b"]);
        assert_eq!((made.client.as_str(), made.machines), ("ringway", 2));
        assert_eq!(made.again.map(|time| time.as_secs()), Some(30 * 86_400));
        assert!(made.routers && made.group_claim == "roles");
    }
}
