"""Mathematical functions around the approximate instructions of a target."""
