//! The agent: it asks the model, runs the tools that it asks for, appends the results and goes on until the
//! model asks for nothing more. It knows neither screen nor terminal.

mod protocol;

pub use protocol::{
    Activity, AgentSettings, Command, Delivery, FileChange, Queued, Restore, RestorePreview, ReviewAnswer,
    ReviewRequest, SessionState, Update,
};
