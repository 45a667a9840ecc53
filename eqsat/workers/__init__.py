"""Jobs in processes of their own, which can be ended: call, pool, process, frames, limits."""
