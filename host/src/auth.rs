//! Who calls: token issue and check, client lookup, secrets, signing keys.
