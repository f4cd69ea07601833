//! daftar
