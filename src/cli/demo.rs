//! The demo's scratch project: a folder of its own, never the person's.

use std::path::PathBuf;

use super::Exit;
use crate::provider::demo::scratch_project;

/// Makes the project. It is left where it is, so that the session can be opened again.
pub fn project() -> Result<PathBuf, Exit> {
    let cannot = |error: std::io::Error| Exit::failed(format!("the demo's scratch project cannot be made: {error}"));
    let folder = tempfile::Builder::new().prefix("violin-demo-").tempdir().map_err(cannot)?.keep();
    scratch_project(&folder).map_err(cannot)?;
    Ok(folder)
}
