"""Front ends: programs of other frameworks on xladev's platforms; each imports only its own."""
