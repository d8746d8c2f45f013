"""From constraints to sparse rows over the parts of a shard."""
