//! The nearest of the names that exist.

/// What other programs call a key, and the last part of its path here.
const ALIASES: &[(&str, &str)] = &[
    ("lr", "learning_rate"),
    ("ent_coef", "entropy"),
    ("vf_coef", "value_coef"),
    ("num_envs", "envs"),
    ("n_envs", "envs"),
    ("n_steps", "horizon"),
    ("lam", "gae_lambda"),
];

/// `did you mean "x"?` if something is near `name`, else `otherwise`.
pub(super) fn hint<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: impl Into<String>,
) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => otherwise.into(),
    }
}

/// The most similar name (Jaro-Winkler, case ignored), if one is similar enough to be meant. For a
/// dotted key without its section the last part alone is compared too.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let last = name.rsplit('.').next().unwrap_or(&name);
    let last = ALIASES
        .iter()
        .find(|(alias, _)| *alias == last)
        .map_or(last, |(_, key)| key);
    known
        .into_iter()
        .map(|k| {
            let key = k.to_lowercase();
            let key_last = key.rsplit('.').next().unwrap_or(&key);
            let whole = strsim::jaro_winkler(&name, &key);
            // A right name in a wrong section is a near miss, a little worse than a wrong letter.
            let part = 0.97 * strsim::jaro_winkler(last, key_last);
            (whole.max(part), k)
        })
        .filter(|(score, _)| *score > 0.8)
        // The first of equals: the order of the reference is that of importance.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 4] = ["seed", "algo.gamma", "algo.gae_lambda", "rollout.envs"];

    #[test]
    fn near_misses_are_found() {
        for (name, near) in [
            ("sed", "seed"),
            ("algo.gama", "algo.gamma"),
            ("gamma", "algo.gamma"),
            ("algo.envs", "rollout.envs"),
            ("Algo.GAE_Lambda", "algo.gae_lambda"),
        ] {
            assert_eq!(nearest(name, KEYS), Some(near), "{name}");
        }
        assert_eq!(nearest("completely.different", KEYS), None);
        assert_eq!(hint("zzz", KEYS, "see the list"), "see the list");
    }
}
