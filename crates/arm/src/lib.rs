//! A full-system simulator of ARM machines.
