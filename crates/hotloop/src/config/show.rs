//! A configuration as text: as TOML for a run's directory, or with every key explained.

use super::error::Origin;
use super::keys::Config;
use super::layers::Origins;
use std::fmt::Write;
use toml::{Table, Value};

impl Config {
    /// All keys and values as TOML: what a run keeps in `config.toml`. Reading it gives the same
    /// configuration.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("texts, numbers, lists and tables with text keys are all TOML")
    }

    /// The same, with the meaning of each key above it and the origin of each value behind it.
    #[must_use]
    pub fn explained(&self, origins: &Origins) -> String {
        let mut text = String::new();
        let mut section = "";
        let keys = Self::keys();
        for key in &keys {
            let (head, name) = key.path.split_once('.').unwrap_or(("", &key.path));
            if head != section {
                section = head;
                text.push_str(&format!("\n[{head}]\n"));
            }
            for line in wrap(&key.about, 96) {
                text.push_str(&format!("# {line}\n"));
            }
            text.push_str(&self.assignment(name, &key.path, origins));
        }
        text
    }

    /// The value of a key; none if it is not set.
    pub(crate) fn value(&self, path: &str) -> Option<Value> {
        let table = Value::Table(Table::try_from(self).ok()?);
        path.split('.')
            .try_fold(&table, |value, name| value.get(name))
            .cloned()
    }

    fn assignment(&self, name: &str, path: &str, origins: &Origins) -> String {
        let from = match origins.of(path) {
            Origin::Default => String::new(),
            origin => format!("  # from {origin}"),
        };
        match self.value(path) {
            None => format!("# {name} is not set\n"),
            // Dotted, so that a comment with its origin can follow each.
            Some(Value::Table(options)) => {
                options
                    .iter()
                    .fold(String::new(), |mut text, (option, value)| {
                        // Writing to a String cannot fail.
                        let _ = writeln!(text, "{name}.{} = {value}{from}", quoted(option));
                        text
                    })
            }
            Some(value) => format!("{name} = {value}{from}\n"),
        }
    }
}

/// A TOML key, in quotes where it needs them.
fn quoted(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_string()
    } else {
        Value::String(key.to_string()).to_string()
    }
}

/// Lines of at most `width` characters, broken at spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if lines[last].len() + 1 + word.len() <= width {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;

    fn layers() -> Layers {
        Layers::new()
            .preset("cartpole")
            .unwrap()
            .set("algo.gamma=0.5")
            .unwrap()
            .set("env.options.goal.x=3")
            .unwrap()
    }

    #[test]
    fn both_forms_read_back_as_the_same_configuration() {
        let (config, origins) = layers().finish();
        for text in [config.to_toml(), config.explained(&origins)] {
            let (again, _) = Layers::new()
                .text(&text, Origin::File("config.toml".into()))
                .unwrap()
                .finish();
            assert_eq!(again, config, "{text}");
        }
    }

    #[test]
    fn every_key_is_explained_with_its_origin() {
        let (config, origins) = layers().finish();
        let text = config.explained(&origins);
        for line in [
            "# Discount per step.\ngamma = 0.5  # from --set\n",
            "id = \"CartPole-v1\"  # from preset cartpole\n",
            "clip = 0.2\n",
            "# until_return is not set\n",
            "options.\"goal.x\" = 3  # from --set\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
}
