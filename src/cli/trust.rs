//! `violin trust`: what a project brings is put in force, listed, or taken back.

use std::io::{self, Write};

use super::args::TrustArgs;
use super::{Exit, shown, start};
use crate::config::trust::{Brought, Trust};
use crate::home::Home;

/// Does what `violin trust` says.
pub fn run(home: &Home, args: &TrustArgs) -> Result<u8, Exit> {
    let mut out = io::stdout().lock();
    if args.list {
        for directory in Trust::read(home).directories() {
            writeln!(out, "{}", crate::text::visible(directory))?;
        }
        return Ok(0);
    }
    if let Some(directory) = &args.revoke {
        let had = Trust::revoke(home, directory)?;
        writeln!(out, "{} {}", shown(directory), if had { "is not trusted any more" } else { "was not trusted" })?;
        return Ok(u8::from(!had));
    }
    let directory = start::directory(args.directory.as_deref())?;
    let brought = Brought::of(&directory);
    for refused in &brought.refused {
        writeln!(io::stderr(), "violin: {}", crate::text::clean(refused))?;
    }
    if brought.items.is_empty() {
        writeln!(out, "{} brings nothing that needs trust", shown(&directory))?;
        return Ok(0);
    }
    Trust::answer(home, &brought, true)?;
    writeln!(out, "trusted as it stands now, in {}:", shown(&brought.dir))?;
    for line in brought.lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(0)
}
