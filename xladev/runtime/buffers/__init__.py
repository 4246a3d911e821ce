"""Device memory that the runtime owns, and copies to and from the host."""
