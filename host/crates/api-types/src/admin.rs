//! Bodies of the administrator's API.
