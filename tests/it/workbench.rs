//! The workbench: its page and files as they are served, and a browser that is led through it.

mod page;
mod people;
mod texts;
mod walk;
