//! Third-party clients, from their packages, against the server's own program over HTTP: each gets a token in each form
//! that it supports, reads, searches and registers, continues with a new token after a 401, and after the wait given by
//! a 429.
//!
//! **Invariant:** no limit is switched off. Each test has a client and an address of its own, and so buckets of its own.

mod curl;
mod register;
mod script;

use self::script::Runtime;

#[test]
fn authlib_with_basic() {
    script::walk(Runtime::python(), "with_authlib.py", "basic");
}

#[test]
fn authlib_with_a_form() {
    script::walk(Runtime::python(), "with_authlib.py", "form");
}

#[test]
fn requests_oauthlib_with_basic() {
    script::walk(Runtime::python(), "with_requests_oauthlib.py", "basic");
}

#[test]
fn requests_oauthlib_with_a_form() {
    script::walk(Runtime::python(), "with_requests_oauthlib.py", "form");
}

#[test]
fn oauth4webapi_with_basic() {
    script::walk(Runtime::node(), "with-oauth4webapi.mjs", "basic");
}

#[test]
fn oauth4webapi_with_a_form() {
    script::walk(Runtime::node(), "with-oauth4webapi.mjs", "form");
}

#[test]
fn simple_oauth2_with_basic() {
    script::walk(Runtime::node(), "with-simple-oauth2.mjs", "basic");
}

#[test]
fn simple_oauth2_with_a_form() {
    script::walk(Runtime::node(), "with-simple-oauth2.mjs", "form");
}

#[test]
fn simple_oauth2_with_json() {
    script::walk(Runtime::node(), "with-simple-oauth2.mjs", "json");
}
