"""Programs over several processes: how they meet, exchange messages, and fail together."""
