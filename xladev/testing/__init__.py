"""What tests, tools and certification share: comparison, inputs, worker processes, reduction."""
