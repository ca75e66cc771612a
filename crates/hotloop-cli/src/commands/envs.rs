//! `envs`: which environments there are, what they look like, and what can be set.

use crate::exit::Failure;
use crate::output;
use hotloop::prelude::{EnvSpec, Registry};
use std::collections::BTreeMap;
use std::fmt::Write;

pub(crate) fn envs(registry: &Registry) -> Result<(), Failure> {
    let mut text = String::new();
    for spec in registry.iter() {
        // Writing to a String cannot fail.
        let _ = describe(&mut text, spec);
    }
    for family in registry.families() {
        text.push_str(&format!("{family}:NAME\n"));
    }
    if text.is_empty() {
        text.push_str("this program has no environments; add some to its Registry\n");
    }
    let presets: Vec<&str> = hotloop::presets::names().collect();
    text.push_str(&format!("\npresets: {}\n", presets.join(", ")));
    output::put(&text)
}

fn describe(text: &mut String, spec: &EnvSpec) -> std::fmt::Result {
    writeln!(text, "{}", spec.id())?;
    if !spec.description().is_empty() {
        writeln!(text, "    {}", spec.description())?;
    }
    let spaces = spec
        .options(&BTreeMap::new())
        .and_then(|options| spec.spaces(&options));
    match spaces {
        Ok(spaces) => {
            writeln!(text, "    observations  {}", spaces.observation_space)?;
            writeln!(text, "    actions       {}", spaces.action_space)?;
        }
        Err(error) => writeln!(text, "    cannot be made with its defaults: {error}")?,
    }
    if spec.max_steps() > 0 {
        writeln!(text, "    time limit    {} steps", spec.max_steps())?;
    }
    for (name, default, about) in spec.declared() {
        writeln!(
            text,
            "    option        env.options.{name} = {default}  {about}"
        )?;
    }
    Ok(())
}
