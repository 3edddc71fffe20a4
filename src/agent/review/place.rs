//! Where a path lies: inside the project, in a part of it that asks, or outside.

use std::path::Path;

/// Where a call writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the project, or where the person said that it may write.
    Inside,
    /// In a folder of the project that programs and Violin itself obey.
    Guarded(String),
    /// Elsewhere, with the reason to ask.
    Outside(String),
}

/// Folders whose files are obeyed.
const GUARDED: &[&str] = &[".git", ".violin"];

/// Where a real path lies. `home` is the person's home directory: a project that holds all of it fences nothing in.
pub fn of(real: &Path, root: &Path, home: Option<&Path>, also: &[std::path::PathBuf]) -> Place {
    let guard = real.components().find_map(|part| {
        let name = part.as_os_str().to_string_lossy();
        GUARDED.iter().find(|guarded| guarded.eq_ignore_ascii_case(&name)).map(|_| name.into_owned())
    });
    let inside = real.strip_prefix(root).is_ok();
    if let Some(name) = guard.filter(|_| inside) {
        return Place::Guarded(name);
    }
    if inside && home.is_some_and(|home| home.starts_with(root)) {
        return Place::Outside("the project is the home directory, so that nothing keeps it in".to_owned());
    }
    if inside || also.iter().any(|folder| real.starts_with(folder)) {
        return Place::Inside;
    }
    Place::Outside("it is outside the project".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        let root = Path::new("/home/me/p");
        let home = Some(Path::new("/home/me"));
        let also = [std::path::PathBuf::from("/tmp")];
        let at = |path: &str| of(Path::new(path), root, home, &also);
        assert_eq!(at("/home/me/p/src/a"), Place::Inside);
        assert_eq!(at("/tmp/x"), Place::Inside);
        assert_eq!(at("/home/me/p/.git/hooks/x"), Place::Guarded(".git".into()));
        assert_eq!(at("/home/me/p/sub/.Git/config"), Place::Guarded(".Git".into()));
        assert_eq!(at("/home/me/p/.violin/settings.json"), Place::Guarded(".violin".into()));
        assert_eq!(at("/home/me/p/.gitignore"), Place::Inside);
        assert!(matches!(at("/home/me/pp/x"), Place::Outside(_)));
        assert!(matches!(of(Path::new("/home/me/.ssh/x"), Path::new("/home/me"), home, &[]), Place::Outside(_)));
        assert!(matches!(of(Path::new("/etc/x"), Path::new("/"), home, &[]), Place::Outside(_)));
    }
}
