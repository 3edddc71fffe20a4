//! macOS: a profile for sandbox-exec that keeps a command to the same fence. Its text is made and tested everywhere.

#[cfg(any(target_os = "macos", test))]
use crate::toolkit::Fence;

/// What puts a profile in force.
#[cfg(target_os = "macos")]
pub const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// The profile: everything as the person may, but writing only within the fence.
#[cfg(any(target_os = "macos", test))]
pub fn profile(fence: &Fence) -> String {
    let mut text = String::from("(version 1)\n(allow default)\n(deny file-write*)\n");
    if !fence.network {
        text.push_str("(deny network*)\n(allow network* (local unix))\n(allow network* (remote unix))\n");
    }
    text.push_str("(allow file-write*\n");
    for path in &fence.write {
        let path = path.to_string_lossy();
        let path = path.trim_end_matches('/').replace('\\', "\\\\").replace('"', "\\\"");
        text.push_str(&format!("  (subpath \"{path}\")\n"));
    }
    // Terminals of its own making, and what standard output is.
    text.push_str("  (literal \"/dev/dtracehelper\")\n  (regex #\"^/dev/fd/\")\n)\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_allows_writing_within_the_fence_alone() {
        let write = ["/p", "/odd \"name\\", "/t/"].map(Into::into).into();
        let text = profile(&Fence { write, network: true });
        assert!(
            text.starts_with(
                "(version 1)\n(allow default)\n(deny file-write*)\n(allow file-write*\n  (subpath \"/p\")\n"
            )
        );
        assert!(text.contains(r#"(subpath "/odd \"name\\")"#) && text.contains("(subpath \"/t\")"), "{text}");
        assert!(!text.contains("network"));
        let text = profile(&Fence { write: Vec::new(), network: false });
        assert!(text.contains("(deny network*)"));
        assert_eq!(text.matches('(').count(), text.matches(')').count());
    }
}
