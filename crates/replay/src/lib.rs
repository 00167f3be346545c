//! Replays a recorded program on described machines.
